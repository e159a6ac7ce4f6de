"""What is in devices/: every card loads, cites what exists, and the README lists every entry."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from eptsim.cards import list_cards, load_card
from eptsim.cards.loader import WRITTEN_KINDS, shipped_sources
from eptsim.cards.schema import SCHEMA, Sections

DEVICES = Path(__file__).resolve().parents[2] / "devices"


def test_the_first_cards_are_shipped() -> None:
    assert {"harsh", "ideal", "pcm_mushroom"} <= set(list_cards())


def test_folder_holds_data_only() -> None:
    names = {path.name for path in DEVICES.iterdir()}
    assert names == {f"{name}.toml" for name in list_cards()} | {"sources.bib", "README.md"}


@pytest.mark.parametrize("name", list_cards())
def test_card_is_complete(name: str) -> None:
    card = load_card(name)
    sources = shipped_sources()
    assert card.name == name
    written = [view for view in card.entries() if view.kind != "default"]
    assert written
    for view in written:
        assert view.kind in WRITTEN_KINDS
        if view.kind != "assumed":
            assert view.source
            assert view.where
        assert not view.source or view.source in sources


def test_ideal_card_has_no_flaw() -> None:
    assert load_card("ideal").sections == Sections()


def test_harsh_card_is_assumed_throughout() -> None:
    assert {view.kind for view in load_card("harsh").entries()} == {"assumed", "default"}


def test_every_source_can_be_found_by_a_reader() -> None:
    for source in shipped_sources().values():
        assert source.fields.get("doi") or source.fields.get("url")


def test_readme_lists_the_schema() -> None:
    """The table of the README is the schema; see the failure for the row to write."""
    rows = {
        key.replace("forward.", "{forward,transpose}."): entry
        for key, entry in SCHEMA.items()
        if not key.startswith("transpose.")
    }
    text = (DEVICES / "README.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `([^`]+)`.*$", text, flags=re.MULTILINE)
    assert [key for key in listed if "." in key] == list(rows)
    for key, entry in rows.items():
        allowed = entry.allowed.replace(", or absent for ideal", "").replace(", or absent", "")
        if entry.default is None or isinstance(entry.default, str):
            default = entry.default or ("absent" if entry.table else "ideal")
        else:
            default = f"{entry.default:g}" + ("" if entry.unit == "1" else f" {entry.unit}")
        assert f"| `{key}` | {allowed} | {default} | {entry.spec.doc} |" in text


def test_readme_example_of_an_entry_loads(tmp_path: Path) -> None:
    text = (DEVICES / "README.md").read_text(encoding="utf-8")
    blocks = [re.sub(r"^ {3}", "", block, flags=re.MULTILINE) for block in _toml(text)]
    (tmp_path / "my_rram.toml").write_text("\n".join(blocks), encoding="utf-8")
    (tmp_path / "sources.bib").write_text(
        "@misc{me2025rram, author = {Me}, title = {Mine}, year = 2025}", encoding="utf-8"
    )
    assert load_card(tmp_path / "my_rram.toml").transpose.offset == 0.02


def _toml(text: str) -> list[str]:
    return re.findall(r"```toml\n(.*?)```", text, flags=re.DOTALL)
