"""The doctor's report, and an aihwkit that does not match torch."""

import json
import subprocess
import sys
from collections import namedtuple

import pytest

from eptsim.base.errors import CardError
from eptsim.cli import doctor as module
from eptsim.cli.main import main


@pytest.fixture(scope="module")
def report():
    ran = subprocess.run(
        [sys.executable, "-m", "eptsim", "doctor", "--json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout
    return json.loads(ran.stdout)


def test_this_environment_is_fine(report):
    assert report["ok"]
    found = {check["name"]: check for check in report["checks"]}
    assert {"python", "torch", "numba", "threads", "gpu", "memory", "disk"} <= set(found)
    assert found["python"]["found"].startswith("3.11.")
    assert "threading layer" in found["numba kernels"]["found"]


def fake_aihwkit(folder, version, body):
    """An installed aihwkit of one version, whose import does what ``body`` says."""
    (folder / "aihwkit").mkdir()
    (folder / "aihwkit" / "__init__.py").write_text(body)
    info = folder / f"aihwkit-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: aihwkit\nVersion: {version}\n")


@pytest.mark.parametrize(
    ("version", "body", "problem", "advice"),
    [
        ("1.1.0", "raise ImportError('undefined symbol: _ZN3c10')", "undefined symbol", "1.1.0"),
        ("1.1.0", "import os; os.abort()", "ended with -6", "1.1.0"),
        ("0.9.2", "raise ImportError('no')", "no", "eptsim is tested with aihwkit 1.1.0"),
    ],
)
def test_an_aihwkit_that_does_not_run(tmp_path, monkeypatch, version, body, problem, advice):
    fake_aihwkit(tmp_path, version, body)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    check = module.check_aihwkit()
    assert check.state == "fail" and version in check.found and problem in check.found
    assert advice in check.advice and "'torch==2.10.*'" in check.advice


def test_a_missing_package_fails_and_says_how_to_get_it(monkeypatch, capsys):
    monkeypatch.setattr(module, "PACKAGES", ("eptsim-is-not-this",))
    assert main(["doctor"]) == 1
    assert "pip install eptsim-is-not-this" in capsys.readouterr().out


def test_another_python_fails(monkeypatch):
    info = namedtuple("info", "major minor")(3, 12)
    monkeypatch.setattr(module.sys, "version_info", info)
    assert module.check_python().state == "fail"


def test_more_threads_than_cores_is_a_note(monkeypatch):
    monkeypatch.setattr(module.os, "sched_getaffinity", lambda _: {0}, raising=False)
    monkeypatch.setattr("torch.get_num_threads", lambda: 8)
    check = module.check_threads()
    assert check.state == "note" and "OMP_NUM_THREADS=1" in check.advice


def test_a_broken_card_fails(monkeypatch):
    def refuse(name):
        raise CardError("card: broken")

    monkeypatch.setattr(module, "load_card", refuse)
    assert module.check_cards() == module.Check("device cards", "fail", "card: broken")


def test_a_full_disk_is_a_note(monkeypatch, tmp_path):
    usage = namedtuple("usage", "total used free")(2**40, 2**40, 2**20)
    monkeypatch.setattr(module.shutil, "disk_usage", lambda _: usage)
    assert module.check_disk(tmp_path).state == "note"
