"""``pytest --crossbar``, run as a user runs it, in a folder of the user's."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MINE = """
import eptsim

def sound(weight, card, seed):
    return eptsim.Crossbar(weight, card, seed)

def without_levels(weight, card, seed):
    if card.cell.levels is not None:
        raise eptsim.base.errors.CardError("cell.levels: not here")
    return eptsim.Crossbar(weight, card.override({"cell.stuck.low": 0.0}), seed)
"""
OTHERS = "def test_of_the_user():\n    assert False\n"
CHECKS = "exactness/zero or knobs/cell.levels or knobs/cell.stuck.low"


def pytest_in(folder, *arguments, plugin=("-p", "eptsim.testing.plugin"), path=None):
    (folder / "mine.py").write_text(MINE)
    (folder / "test_others.py").write_text(OTHERS)
    environment = {"PATH": "", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(path or ROOT)}
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *plugin, *arguments],
        cwd=folder, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return ran.returncode, ran.stdout + ran.stderr


@pytest.mark.slow
def test_a_sound_factory_passes_and_other_tests_stay_out(tmp_path):
    status, said = pytest_in(tmp_path, "-v", "--crossbar", "mine:sound", "-k", CHECKS)
    assert status == 0, said
    assert "4 passed" in said
    assert "conformance::exactness/zero-transpose PASSED" in said


def test_a_dead_knob_fails_and_a_refusal_is_skipped(tmp_path):
    status, said = pytest_in(tmp_path, "-rs", "--crossbar", "mine:without_levels", "-k", CHECKS)
    assert status == 1
    assert "1 failed, 2 passed, 1 skipped" in said
    assert "conformance: knobs/cell.stuck.low" in said
    assert "forward: changed by only 0" in said
    assert "cell.levels: not here" in said
    assert "Traceback" not in said


@pytest.mark.slow
def test_files_named_are_collected_too(tmp_path):
    _, said = pytest_in(tmp_path, "test_others.py", "--crossbar", "mine:sound",
                        "-k", "test_of_the_user or exactness/zero")
    assert "1 failed, 2 passed" in said


@pytest.mark.slow
def test_dtype_and_markers(tmp_path):
    options = ("--crossbar", "mine:sound", "--crossbar-dtype", "float64", "--strict-markers")
    status, said = pytest_in(tmp_path, *options, "-m", "slow", "--collect-only", "-q")
    assert status == 0, said
    assert "conformance::noise/million" in said
    assert "exactness" not in said


@pytest.mark.slow
def test_a_name_that_leads_nowhere_is_a_usage_error(tmp_path):
    status, said = pytest_in(tmp_path, "--crossbar", "mine:nothing")
    assert status == pytest.ExitCode.USAGE_ERROR
    assert "--crossbar: factory: found" in said


@pytest.mark.slow
def test_without_the_option_nothing_changes(tmp_path):
    status, said = pytest_in(tmp_path)
    assert status == 1
    assert "1 failed" in said


@pytest.mark.slow
def test_from_a_wheel_somewhere_else(tmp_path):
    """The entry point of an installed copy: no -p is needed."""
    tree = tmp_path / "tree"
    for name in ("eptsim", "devices"):
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree)
    wheel = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*wheel, "-w", str(tmp_path), str(tree)], check=True, cwd=tmp_path)
    installed, folder = tmp_path / "installed", tmp_path / "elsewhere"
    zipfile.ZipFile(next(tmp_path.glob("*.whl"))).extractall(installed)
    folder.mkdir()
    status, said = pytest_in(
        folder, "-v", "--crossbar", "mine:sound", "-k", CHECKS, plugin=(), path=installed
    )
    assert status == 0, said
    assert "4 passed" in said
