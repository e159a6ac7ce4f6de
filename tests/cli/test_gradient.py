"""The gradient verb: what it prints, how settings win over each other, and what it refuses."""

import json

import numpy as np
import pytest
import torch

import eptsim
from eptsim.cli.main import main
from eptsim.olmo2.tokenizer import train_tokenizer
from eptsim.results.views import open_results, settings_of

TEXT = "The free phase is the zero of the measurement; the nudge is small. " * 40


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("model")
    tokenizer = train_tokenizer(TEXT, 280)
    shape = eptsim.Olmo2Shape(
        vocab_size=tokenizer.vocab_size, hidden_size=16, intermediate_size=32,
        num_hidden_layers=2, num_attention_heads=2, max_position_embeddings=32,
    )
    model = eptsim.Olmo2(shape, seed=0)
    with torch.no_grad():
        model.get_parameter("model.embed_tokens.weight").mul_(50)
    model.save_pretrained(made)
    tokenizer.save(made)
    return made


@pytest.fixture
def text(tmp_path):
    file = tmp_path / "text.txt"
    file.write_text(TEXT)
    return file


@pytest.fixture(autouse=True)
def wide(monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")


@pytest.fixture
def run(folder, text, capsys):
    def call(*options, file=text, code=0):
        given = ["gradient", "--model", str(folder), "--text", str(file), *map(str, options)]
        assert main(given) == code
        captured = capsys.readouterr()
        if code == 0 and "--json" in options:
            return json.loads(captured.out)
        return captured.out if code == 0 else captured.err

    return call


def test_an_ideal_chip_gives_backpropagation(run):
    found = run("--measurement", "frozen", "--json")
    assert found["total"]["cosine"] == pytest.approx(1, abs=1e-6)
    assert found["loss_chip"] == pytest.approx(found["loss_digital"], rel=1e-5)
    assert len(found["blocks"]) == 2 and len(found["arrays"]) == 14
    assert [phase["name"] for phase in found["phases"]] == ["free", "nudged"]
    exact = run("--measurement", "frozen", "--set", "dtype=float64", "--json")
    assert exact["total"]["relative_error"] < 1e-10


def test_people_see_blocks_phases_and_loss(run):
    shown = run("--card", "harsh", "--sweeps", 3)
    for words in ("all arrays", "nudged+", "fixed sweeps", "on the chip", "cosine"):
        assert words in shown
    assert "W_proj" not in shown and "W_proj" in run("--arrays")
    assert "local variables" in run("--measurement", "frozen")


def test_flags_win_over_set_over_file(run, tmp_path):
    file = tmp_path / "run.toml"
    file.write_text('[ep]\nbeta = 0.1\nreads = 2\n[card]\nname = "ideal"\nnode.offset = 0.0\n')
    found = run("--config", file, "--json")
    assert found["settings"]["beta"] == 0.1 and found["settings"]["reads"] == 2
    found = run("--config", file, "--set", "ep.beta=0.05", "--json")
    assert found["settings"]["beta"] == 0.05
    found = run("--config", file, "--set", "ep.beta=0.05", "--beta", 0.02, "--json")
    assert found["settings"]["beta"] == 0.02


def test_an_override_and_the_seed_change_the_numbers(run):
    base = ("--measurement", "one_sided", "--reference", "none", "--json")
    quiet = run(*base)
    loud = run(*base, "--set", "card.transpose.offset=0.02")
    assert loud["total"]["relative_error"] > 3 * quiet["total"]["relative_error"]
    other = run(*base, "--set", "card.transpose.offset=0.02", "--seed", 1)
    assert other["total"] != loud["total"]


def test_tokens_need_no_tokenizer(run, tmp_path):
    file = tmp_path / "text.bin"
    (np.arange(200) % 250).astype("<u2").tofile(file)
    assert run("--batch", 3, "--length", 8, "--json", file=file)["tokens"] == [3, 8]


def test_the_result_is_written_where_asked(run, tmp_path):
    found = run("--out", tmp_path / "out", "--json")
    data = open_results(found["result"])
    assert settings_of(data)["kind"] == "gradient"
    assert data["cosine"].values[0] == pytest.approx(found["total"]["cosine"])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--card", "idel"), "ideal"),
        (("--beta", "0"), "beta"),
        (("--beta", "nan"), "beta"),
        (("--set", "ep.bata=1"), "ep.beta"),
        (("--set", "card.transpose.ofset=1"), "transpose.offset"),
        (("--set", "card.name=3"), "card.name"),
        (("--set", "nonsense"), "KEY=VALUE"),
        (("--measurement", "centered"), "centred"),
        (("--reference", "lines"), "line"),
        (("--range-policy", "hold"), "held"),
        (("--sweeps", "3", "--tolerance", "0.1"), "one of the two"),
        (("--reads", "0"), "reads"),
        (("--batch", "0"), "batch"),
        (("--length", "0"), "length"),
        (("--length", "33"), "max_position_embeddings"),
        (("--batch", "5000"), "at least"),
        (("--tokenizer", "/nowhere/tokenizer.json"), "tokenizer"),
        (("--device", "tpu"), "cpu"),
    ],
)
def test_bad_input_is_one_clear_line(run, options, words):
    error = run(*options, code=2)
    assert words in error and error.count("\n") == 1


def test_a_model_is_asked_for(capsys, tmp_path):
    assert main(["gradient"]) == 2
    assert "eptsim demo" in capsys.readouterr().err
    assert main(["gradient", "--model", str(tmp_path / "none")]) == 2
    assert "no such folder" in capsys.readouterr().err


def test_text_without_a_tokenizer_is_refused(run, folder, text, tmp_path, capsys):
    bare = tmp_path / "bare"
    eptsim.Olmo2.from_pretrained(folder).save_pretrained(bare)
    assert main(["gradient", "--model", str(bare), "--text", str(text)]) == 2
    assert "--tokenizer" in capsys.readouterr().err
    assert main(["gradient", "--model", str(bare), "--text", str(text), "--tokenizer",
                 str(folder / "tokenizer.json")]) == 0


@pytest.mark.parametrize(
    ("content", "words"), [("", "white space"), ("short", "found"), (None, "no such file")]
)
def test_bad_text_is_refused(run, tmp_path, content, words):
    file = tmp_path / "bad.txt"
    if content is not None:
        file.write_text(content)
    assert words in run(file=file, code=2)


def test_a_phase_that_does_not_settle_has_its_own_exit_code(run):
    error = run("--beta", "1000", "--measurement", "one_sided", "--set", "ep.max_sweeps=3", code=3)
    assert "No gradient" in error


def test_an_unwritable_folder_is_named(run, tmp_path):
    file = tmp_path / "file"
    file.write_text("x")
    assert str(file) in run("--out", file, code=2)
