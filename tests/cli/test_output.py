"""Tables, JSON and lines for people."""

import json

import pytest

from eptsim.cli.output import console, print_json, progress, show_error, show_note, table


def test_json_round_trips(capsys):
    data = {"word": "µS", "none": None, "list": [1, 2.5]}
    print_json(data)
    out = capsys.readouterr().out
    assert json.loads(out) == data
    assert "µS" in out


def test_json_refuses_nan():
    with pytest.raises(ValueError):
        print_json({"x": float("nan")})


def test_errors_and_notes_go_to_stderr(capsys):
    show_error("bad " * 60)
    show_note("written")
    seen = capsys.readouterr()
    assert seen.out == ""
    assert seen.err == f"eptsim: {'bad ' * 59}bad\nwritten\n"


def test_a_table_shows_its_cells(capsys):
    made = table("a", "b")
    made.add_row("1", "two")
    console().print(made)
    assert capsys.readouterr().out.split() == ["a", "b", "1", "two"]


def test_progress_leaves_stdout_alone(capsys):
    with progress() as shown:
        shown.advance(shown.add_task("reads", total=2))
    assert capsys.readouterr().out == ""
