"""The device card: one technology as data, frozen, with the origin of every number."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from eptsim.base.errors import CardError, nearest
from eptsim.base.table import Table
from eptsim.cards.array_entries import Array, Clock, Direction, Node
from eptsim.cards.cell_entries import Cell
from eptsim.cards.check import IDEAL, check_value, find_entry
from eptsim.cards.schema import SCHEMA, Entry, Sections, build
from eptsim.cards.spec import Value
from eptsim.cards.together import check_together

Kind: TypeAlias = Literal["measured", "fitted", "assumed", "override", "default"]


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where the value of one entry comes from."""

    kind: Kind
    source: str = ""
    """Key of the bibliography; empty where ``kind`` needs none."""
    where: str = ""
    """Place in the source: figure, table, section."""
    why: str = ""
    """Reason of an assumption, or how the number was derived."""


DEFAULT = Provenance("default")
OVERRIDE = Provenance("override")


@dataclass(frozen=True, slots=True)
class EntryView:
    """One entry of a card, for display."""

    key: str
    value: Value
    """In SI, None for ideal."""
    unit: str
    """Symbol of the SI unit, "1" for a fraction or count, empty for a choice."""
    kind: Kind
    source: str
    where: str
    why: str


@dataclass(frozen=True, eq=False, repr=False)
class Card:
    """A device technology. Made by ``load_card`` and by ``override``, never changed.

    Two cards are equal, and have the same ``sha256``, when all their values are equal: names and
    sources play no part.
    """

    name: str
    title: str
    description: str
    technology: str
    sections: Sections
    origins: Mapping[str, Provenance] = field(default_factory=dict)
    """Provenance of the entries that the file or an override sets; the others are defaults."""

    @property
    def cell(self) -> Cell:
        """The memory cell."""
        return self.sections.cell

    @property
    def array(self) -> Array:
        """Tiles, mapping and wires."""
        return self.sections.array

    @property
    def node(self) -> Node:
        """The state node of a block boundary."""
        return self.sections.node

    @property
    def clock(self) -> Clock:
        """When reads happen."""
        return self.sections.clock

    @property
    def forward(self) -> Direction:
        """Converters and lines of ``read``."""
        return self.sections.forward

    @property
    def transpose(self) -> Direction:
        """Converters and lines of ``read_transpose``."""
        return self.sections.transpose

    def direction(self, name: str) -> Direction:
        """Return the entries of one read direction, ``"forward"`` or ``"transpose"``."""
        if name == "forward":
            return self.forward
        if name == "transpose":
            return self.transpose
        allowed = ("forward", "transpose")
        raise CardError(
            f"card {self.name!r}: direction: found {name!r}, allowed: 'forward' or 'transpose'."
            f"{nearest(str(name), allowed)}"
        )

    def keys(self) -> tuple[str, ...]:
        """Return the dotted key of every entry, set or not."""
        return tuple(SCHEMA)

    def get(self, key: str) -> Value:
        """Return the value of a dotted key in SI, None where it is ideal."""
        entry = find_entry(key, f"card {self.name!r}")
        return self._values()[entry.key]

    def override(self, changes: Mapping[str, object]) -> Card:
        """Return a new card with some values replaced.

        Parameters
        ----------
        changes
            Dotted key to value, in SI; None or ``"ideal"`` for no such flaw. All of them are
            applied before the card is checked as a whole.

        Raises
        ------
        CardError
            A key is unknown, a value is not allowed, or the values do not fit together.
        """
        origin = f"override of card {self.name!r}"
        if not isinstance(changes, Mapping):
            raise CardError(
                f"{origin}: found {type(changes).__name__}, allowed: a mapping from dotted keys "
                "to values."
            )
        values, origins = self._values(), dict(self.origins)
        for key, value in changes.items():
            entry = find_entry(key, origin)
            values[entry.key] = check_value(entry, value, origin)
            origins[entry.key] = OVERRIDE
        return make_card(
            (self.name, self.title, self.description, self.technology), values, origins, origin
        )

    def entries(self) -> tuple[EntryView, ...]:
        """Return every entry with value, unit and origin, in the order of the schema."""
        views = []
        for key, value in self._values().items():
            made = self.origins.get(key, DEFAULT)
            unit = SCHEMA[key].unit
            views.append(EntryView(key, value, unit, made.kind, made.source, made.where, made.why))
        return tuple(views)

    def text(self) -> str:
        """Return the whole card as TOML, in SI, defaults and overrides included.

        ``load_card`` reads it back to an equal card. Equal values written from equal origins
        give equal text.
        """
        header = {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "technology": self.technology,
        }
        lines = ["[card]", *(f"{label} = {_quote(words)}" for label, words in header.items())]
        table = ""
        for view in self.entries():
            section, _, leaf = view.key.rpartition(".")
            if section != table:
                lines += ["", f"[{section}]"]
                table = section
            lines.append(f"{leaf} = {_right_side(view, SCHEMA[view.key])}")
        return "\n".join(lines) + "\n"

    @property
    def sha256(self) -> str:
        """Hash over the values only (hexadecimal, 64 digits).

        Values at their default are left out, so that a later version with more entries gives
        the cards of today the same hash.
        """
        values = {
            key: {"x": v.x, "y": v.y} if isinstance(v, Table) else v
            for key, v in self._values().items()
            if v != SCHEMA[key].default
        }
        canonical = json.dumps(values, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(f"eptsim card 1\n{canonical}".encode()).hexdigest()

    def _values(self) -> dict[str, Value]:
        """Every value by dotted key, in the order of the schema."""
        values: dict[str, Value] = {}
        for key in SCHEMA:
            node: object = self.sections
            for part in key.split("."):
                node = getattr(node, part)
            assert node is None or isinstance(node, float | int | str | Table)
            values[key] = node
        return values

    def __eq__(self, other: object) -> bool:
        return self.sections == other.sections if isinstance(other, Card) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.sha256)

    def __repr__(self) -> str:
        changed = [key for key, made in self.origins.items() if made.kind == "override"]
        note = f", overrides: {', '.join(changed)}" if changed else ""
        return f"<Card {self.name!r}{note}>"


def make_card(
    header: tuple[str, str, str, str],
    values: Mapping[str, Value],
    origins: Mapping[str, Provenance],
    origin: str,
) -> Card:
    """Return the card of checked values, after checking them against each other.

    Parameters
    ----------
    header
        Name, title, description, technology.
    values
        A checked value in SI for every key of the schema.
    origins
        Provenance of the entries that were set.
    origin
        Where the values come from, for error messages.
    """
    given = {key for key, made in origins.items() if made.kind != "default"}
    check_together(values, given, origin)
    name, title, description, technology = header
    return Card(name, title, description, technology, build(dict(values)), dict(origins))


def _right_side(view: EntryView, entry: Entry) -> str:
    value = IDEAL if view.value is None else view.value
    parts = []
    if isinstance(value, Table):
        parts += [f"x = {list(value.x)!r}", f"x_unit = {_quote(entry.x_unit)}"]
        value_text = repr(list(value.y))
    else:
        value_text = _quote(value) if isinstance(value, str) else repr(value)
    parts.append(f"value = {value_text}")
    parts += [f"unit = {_quote(view.unit)}"] if view.unit else []
    parts.append(f"kind = {_quote(view.kind)}")
    notes = {"source": view.source, "where": view.where, "why": view.why}
    parts += [f"{label} = {_quote(note)}" for label, note in notes.items() if note]
    return "{ " + ", ".join(parts) + " }"


def _quote(text: str) -> str:
    """A TOML basic string; JSON's escapes are a subset of TOML's, but for DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
