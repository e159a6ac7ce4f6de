"""The demo, on a tiny model: what it writes, that it resumes, and what it refuses."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from eptsim.cli import demo as verb
from eptsim.cli.main import main
from eptsim.results.views import open_results

TINY = {
    "WIDTH": 16, "BLOCKS": 2, "HEADS": 2, "VOCABULARY": 256, "LENGTH": 16, "BATCH": 2,
    "QUICK_STEPS": 3,
}


@pytest.fixture(autouse=True)
def tiny(monkeypatch):
    for name, value in TINY.items():
        monkeypatch.setattr(verb, name, value)
    monkeypatch.setenv("COLUMNS", "100")


def run(out, *options):
    return main(["demo", "--quick", "--out", str(out), *options])


def test_writes_model_results_and_report(tmp_path, capsys):
    assert run(tmp_path) == 0
    shown = capsys.readouterr().out
    for words in ("EP one-sided", "predictive coding", "Floor:", "Forward read", "report.html"):
        assert words in shown
    assert {p.name for p in (tmp_path / "model").iterdir()} == {
        "config.json", "model.safetensors", "tokenizer.json"
    }
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert page.count("<figure>") == 12
    study = open_results(tmp_path / "results" / "offsets")
    assert {"entry", "ep.measurement", "ep.reference"} <= set(study.coords)
    assert study["cosine"].dims == ("task", "amplitude")


def test_runs_again_without_doing_anything_twice(tmp_path, capsys):
    run(tmp_path, "--json")
    first = capsys.readouterr()
    files = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*.h5")}
    weights = (tmp_path / "model" / "model.safetensors").stat().st_mtime_ns
    assert run(tmp_path, "--json") == 0
    second = capsys.readouterr()
    assert json.loads(first.out) == json.loads(second.out)
    assert "found finished" in second.err and "found finished" not in first.err
    assert {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*.h5")} == files
    assert run(tmp_path, "--json", "--fresh") == 0
    third = capsys.readouterr()
    assert json.loads(third.out) == json.loads(first.out)
    assert "found finished" not in third.err
    assert (tmp_path / "model" / "model.safetensors").stat().st_mtime_ns > weights


@pytest.mark.slow
def test_other_settings_do_not_mix(tmp_path, capsys):
    run(tmp_path, "--json")
    first = json.loads(capsys.readouterr().out)
    assert run(tmp_path, "--json", "--card", "harsh") == 0
    again = json.loads(capsys.readouterr().out)
    assert again["table"] != first["table"]
    assert len(again["table"]) == len(first["table"])
    assert "harsh" in (tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_overrides_reach_the_card(tmp_path, capsys):
    noisy = ("--set", "card.cell.programming.sigma=0.3")
    assert run(tmp_path, "--json", "--card", "ideal", *noisy) == 0
    loud = json.loads(capsys.readouterr().out)
    assert run(tmp_path, "--json", "--card", "ideal") == 0
    quiet = json.loads(capsys.readouterr().out)
    assert float(loud["table"][0]["error at 0"]) > 2 * float(quiet["table"][0]["error at 0"])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--card", "pcm_mushrom"), "pcm_mushroom"),
        (("--set", "card.transpose.ofset=1"), "transpose.offset"),
        (("--set", "ep.beta=1"), "card.KEY"),
        (("--device", "tpu"), "cpu"),
        (("--steps", "0"), "steps"),
    ],
)
def test_bad_input_is_one_clear_line(tmp_path, capsys, options, words):
    assert run(tmp_path, *options) == 2
    assert words in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_folder_that_cannot_be_written_is_refused_at_once(tmp_path, capsys):
    file = tmp_path / "file"
    file.write_text("x")
    assert run(file) == 2
    assert "--out" in capsys.readouterr().err


def test_a_strangers_model_is_left_alone(tmp_path, capsys):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "model.safetensors").write_bytes(b"mine")
    assert run(tmp_path) == 2
    assert "did not train" in capsys.readouterr().err
    assert (tmp_path / "model" / "model.safetensors").read_bytes() == b"mine"


@pytest.mark.slow
def test_a_killed_run_loses_nothing_finished(tmp_path, capsys):
    code = (
        "import sys; from eptsim.cli import demo; from eptsim.cli.main import main\n"
        f"for name, value in {TINY!r}.items(): setattr(demo, name, value)\n"
        "sys.exit(main(['demo', '--chips', '8', '--steps', '3', '--out', sys.argv[1]]))"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)])
    study = tmp_path / "results" / "offsets"
    give_up = time.monotonic() + 120
    while time.monotonic() < give_up and len(list(study.glob("*.h5"))) < 3:
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    kept = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*.h5")}
    assert len(kept) >= 4
    assert main(["demo", "--chips", "8", "--steps", "3", "--out", str(tmp_path)]) == 0
    assert "found finished" in capsys.readouterr().err
    assert {p: p.stat().st_mtime_ns for p in kept} == kept
