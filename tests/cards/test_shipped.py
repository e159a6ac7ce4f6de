"""What is in devices/: every card loads, cites what exists, and the README lists every entry."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import h5py
import pytest
import torch

from eptsim import Crossbar
from eptsim.cards import list_cards, load_card
from eptsim.cards.loader import WRITTEN_KINDS, shipped_sources
from eptsim.cards.schema import SCHEMA, Sections

DEVICES = Path(__file__).resolve().parents[2] / "devices"


SHIPPED = (
    "cmo_hfox_rram", "ecram", "harsh", "hfo2_rram", "ideal", "neurram", "pcm_mushroom", "sonos",
)  # fmt: skip


def test_cards_are_shipped() -> None:
    assert list_cards() == SHIPPED


@pytest.mark.parametrize("name", SHIPPED)
def test_readme_counts_the_origins(name: str) -> None:
    """The README says of each card how many of its numbers are measured, fitted, assumed."""
    kinds = [view.kind for view in load_card(name).entries()]
    counts = " + ".join(str(kinds.count(kind)) for kind in ("measured", "fitted", "assumed"))
    text = (DEVICES / "README.md").read_text(encoding="utf-8")
    (row,) = re.findall(rf"^\| `{name}` \|.*$", text, flags=re.MULTILINE)
    assert row.split(" | ")[2] == counts


@pytest.mark.parametrize("name", SHIPPED)
def test_card_reads_in_both_directions(name: str) -> None:
    """A chip of the card computes W x and W^T d to within its flaws."""
    weight = torch.randn(40, 70, generator=torch.Generator().manual_seed(1)) * 0.1
    x, d = weight[:5], weight.T[:5]
    xbar = Crossbar(weight, load_card(name), seed=3)
    for found, exact in (
        (xbar.read(x), x @ weight.T),
        (xbar.read_transpose(d), d @ weight),
    ):
        error = float(torch.linalg.norm(found - exact) / torch.linalg.norm(exact))
        assert error < (1e-5 if name == "ideal" else 0.8)


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


def test_every_source_is_used() -> None:
    """Cited by an entry, or named in the words of one as what its source leans on."""
    texts = "\n".join(path.read_text(encoding="utf-8") for path in DEVICES.glob("*.toml"))
    assert not [key for key in shipped_sources() if key not in texts]


def test_readme_example_of_an_entry_loads(tmp_path: Path) -> None:
    text = (DEVICES / "README.md").read_text(encoding="utf-8")
    blocks = [re.sub(r"^ {3}", "", block, flags=re.MULTILINE) for block in _toml(text)]
    (tmp_path / "my_rram.toml").write_text("\n".join(blocks), encoding="utf-8")
    (tmp_path / "sources.bib").write_text(
        "@misc{me2025rram, author = {Me}, title = {Mine}, year = 2025}", encoding="utf-8"
    )
    card = load_card(tmp_path / "my_rram.toml")
    assert card.transpose.offset == 0.02
    assert card.cell.programming.table is not None
    assert card.cell.programming.table.y[1] == 0.8e-6


def test_readme_example_of_a_table_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (DEVICES / "README.md").read_text(encoding="utf-8")
    (code,) = re.findall(r" {3}```python\n(.*?)```", text, flags=re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(textwrap.dedent(code), {"h5py": h5py})
    for name in ("conductance", "sigma"):
        assert name in h5py.File(tmp_path / "error.h5")
    card = load_card("ideal").override(
        {"cell.g_max_s": 4e-5, "cell.programming.table": tmp_path / "error.h5"}
    )
    assert card.cell.programming.table is not None
    assert card.cell.programming.table.x[1] == 1e-5


def _toml(text: str) -> list[str]:
    return re.findall(r"```toml\n(.*?)```", text, flags=re.DOTALL)
