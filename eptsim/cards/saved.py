"""The card of a saved array or chip: kept whole in the file, and exchanged for another at loading.

Entries that acted when the cells were programmed are what the saved conductances are, so they stay.
Entries that act at a read may change.
"""

from __future__ import annotations

import json

import h5py

from eptsim.base.errors import CardError
from eptsim.base.h5 import Reader
from eptsim.cards.bibliography import Source
from eptsim.cards.card import Card
from eptsim.cards.loader import parse_card
from eptsim.cards.schema import SCHEMA
from eptsim.cards.spec import Value

READ_ENTRIES = (
    "cell.read_noise.",
    "cell.flicker.",
    "cell.iv.",
    "array.coding",
    "array.read_voltage_v",
    "node.",
    "clock.",
    "forward.",
    "transpose.",
)
"""Keys, or beginnings of keys, of the entries that act at a read; all others made the cells."""


def put_card(group: h5py.Group, card: Card) -> None:
    """Write a card as attributes: its whole text, its hash, and the keys of its sources."""
    group.attrs["card_text"] = card.text()
    group.attrs["card_sha256"] = card.sha256
    cited = sorted({made.source for made in card.origins.values() if made.source})
    group.attrs["card_sources"] = json.dumps(cited)


def read_card(reader: Reader) -> Card:
    """Read what :func:`put_card` wrote.

    Raises
    ------
    CheckpointError
        The text is no card of this version, or not the one that was hashed.
    """
    text = reader.text("card_text")
    try:
        # the bibliography may be elsewhere by now; its keys stay in the text
        cited = [str(key) for key in json.loads(reader.text("card_sources"))]
        card = parse_card(text, {key: Source(key, "", {}) for key in cited}, reader.file)
    except (CardError, ValueError, TypeError) as error:
        raise reader.refuse("card_text", f"no card ({error})", "a card of this version") from error
    if card.sha256 != reader.text("card_sha256"):
        raise reader.refuse("card_sha256", "another hash", f"that of card_text, {card.sha256}")
    return card


def changed_entries(saved: Card, asked: Card) -> tuple[str, ...]:
    """Keys whose values differ, in the order of the schema."""
    return tuple(key for key in SCHEMA if saved.get(key) != asked.get(key))


def acts_at_read(key: str) -> bool:
    """Whether a loaded array may take another value of this entry."""
    return key.startswith(READ_ENTRIES)


def check_exchange(saved: Card, asked: Card, file: str) -> None:
    """Raise CardError where ``asked`` cannot serve cells that ``saved`` made; names every key."""
    wrong = [key for key in changed_entries(saved, asked) if not acts_at_read(key)]
    if not wrong:
        return
    listed = "; ".join(
        f"{key}: found {_shown(key, asked.get(key))}, allowed: {_shown(key, saved.get(key))}"
        for key in wrong
    )
    raise CardError(
        f"{file}: card {asked.name!r} differs from the saved one in what made the cells: {listed}. "
        "Load with converters, noise or clock changed, or program a new array."
    )


def _shown(key: str, value: Value) -> str:
    if value is None:
        return "ideal"
    if isinstance(value, float):
        unit = SCHEMA[key].unit
        return f"{value!r}" + (f" {unit}" if unit not in ("", "1") else "")
    return repr(value) if isinstance(value, int | str) else f"a table of {len(value.x)} points"
