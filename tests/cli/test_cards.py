"""The cards verb: list, show, check; for people and for machines."""

import json
import subprocess
import sys

import pytest

from eptsim.base.errors import CardError
from eptsim.cards import list_cards, load_card
from eptsim.cli.cards import check_command, list_command, show_command
from eptsim.cli.main import main


@pytest.fixture(autouse=True)
def wide(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")


def test_list_names_every_card(capsys):
    list_command()
    out = capsys.readouterr().out
    assert all(name in out for name in list_cards())


def test_list_as_json(capsys):
    list_command(as_json=True)
    found = json.loads(capsys.readouterr().out)
    assert [card["name"] for card in found] == list(list_cards())


def test_show_names_entries_and_origins(capsys):
    show_command("ideal")
    out = capsys.readouterr().out
    assert "cell.g_max_s" in out and "assumed" in out
    assert "transpose.offset" not in out


def test_show_all_adds_the_defaults(capsys):
    show_command("ideal", everything=True)
    out = capsys.readouterr().out
    assert "transpose.offset" in out and "ideal" in out


def test_show_as_json_holds_every_field(capsys):
    show_command("ideal", everything=True, as_json=True)
    found = json.loads(capsys.readouterr().out)
    card = load_card("ideal")
    assert found["sha256"] == card.sha256
    assert {entry["key"]: entry["value"] for entry in found["entries"]} == {
        entry.key: entry.value for entry in card.entries()
    }


def test_show_an_unknown_card():
    with pytest.raises(CardError, match="Did you mean 'ideal'"):
        show_command("idael")


def test_check_without_paths_takes_the_shipped_cards(capsys):
    check_command()
    assert capsys.readouterr().out.count("ok") == len(list_cards())


def test_check_says_what_is_wrong_and_exits_with_1(tmp_path, capsys):
    good, bad = tmp_path / "good.toml", tmp_path / "bad"
    good.write_text(load_card("ideal").text())
    bad.write_text(load_card("ideal").text().replace("g_max_s", "g_maxx"))
    assert main(["cards", "check", "--json", str(good), str(bad), "nosuch"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert [card["ok"] for card in found] == [True, False, False]
    assert "g_max_s" in found[1]["error"]
    assert main(["cards", "check", str(good), str(bad)]) == 1
    out = capsys.readouterr().out
    assert "refused" in out and "no such card entry" in " ".join(out.split())


def test_a_pipe_that_closes_early_is_no_error():
    shell = f"{sys.executable} -m eptsim cards show ideal --all --json | head -n 1"
    ran = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=False)
    assert (ran.stdout, ran.stderr) == ("{\n", "")
