import json

import pytest

from eptsim.cards import load_card
from eptsim.cli.main import main


def test_a_card_file_is_written_and_the_rest_is_listed(tmp_path, capsys):
    out = tmp_path / "idealized.toml"
    assert main(["cards", "import", "aihwkit:IdealizedPreset", "-o", str(out)]) == 0
    card = load_card(out)
    assert card.name == "idealized"
    shown = capsys.readouterr().out
    assert f"{out}: " in shown.replace("\n", "") and "settings not carried" in shown
    assert "device.dw_min_std" in shown.replace("\n", "")
    assert main(["cards", "check", str(out)]) == 0


def test_without_a_file_the_card_is_printed(capsys):
    assert main(["cards", "import", "aihwkit:FloatingPointPreset", "--name", "plain"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith('[card]\nname = "plain"\n')
    assert "# Not carried, or not exactly:" in shown


def test_json(tmp_path, capsys):
    out = tmp_path / "a.toml"
    arguments = ["cards", "import", "aihwkit:PCMPreset", "-o", str(out), "--json"]
    assert main(arguments) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["name"], found["file"]) == ("a", str(out))
    assert found["card"] == out.read_text()
    fields = {item["field"] for item in found["left_out"]}
    assert "device.unit_cell_devices[0].dw_min" in fields
    assert all(item["why"] for item in found["left_out"])


def test_a_file_that_is_there_is_kept(tmp_path, capsys):
    out = tmp_path / "a.toml"
    out.write_text("mine")
    assert main(["cards", "import", "aihwkit:PCMPreset", "-o", str(out)]) == 2
    assert out.read_text() == "mine"
    assert "found a file there" in capsys.readouterr().err


@pytest.mark.parametrize("source", ["aihwkit:NoPreset", "elsewhere:x", "missing.json"])
def test_a_bad_source_is_an_error(source, capsys):
    assert main(["cards", "import", source]) == 2
    assert "allowed" in capsys.readouterr().err or source == "missing.json"


def test_an_unwritable_place_is_an_error(tmp_path, capsys):
    out = tmp_path / "missing" / "a.toml"
    assert main(["cards", "import", "aihwkit:PCMPreset", "-o", str(out)]) == 2
    assert "cannot be written" in capsys.readouterr().err
