"""A card in the making, out of another simulator's settings: nothing of them is lost in silence.

Every setting ends in one of three places: an entry of the card, the list of what a card cannot
carry, or the settings that have no effect at the value they have.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from eptsim.base.errors import CardError
from eptsim.base.table import Table
from eptsim.cards.card import Card, Kind, Provenance, make_card
from eptsim.cards.check import check_value, find_entry, show
from eptsim.cards.loader import parse_card, shipped_sources
from eptsim.cards.schema import SCHEMA
from eptsim.cards.spec import Value

_LARGEST = sys.float_info.max


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A setting that a card does not carry, or not exactly."""

    field: str
    value: str
    why: str


@dataclass(frozen=True, slots=True)
class Imported:
    """A card out of another simulator's settings.

    Attributes
    ----------
    card : Card
    text : str
        The card as a TOML file: what is set, and in comments what is left out.
    left_out : tuple of LeftOut
        Every setting that has an effect there and is not, or not exactly, in the card.
    """

    card: Card
    text: str
    left_out: tuple[LeftOut, ...]


class Draft:
    """Collects the entries of a card from ``settings``, dotted name -> value.

    Parameters
    ----------
    settings : Mapping
        Every setting of the source.
    source : str
        Key of the simulator in the bibliography.
    label : str
        What the settings are called, for the origin of each entry.
    """

    def __init__(self, settings: Mapping[str, object], source: str, label: str) -> None:
        self._settings = dict(settings)
        self._open = dict.fromkeys(settings)
        self._source, self._label = source, label
        self._values: dict[str, Value] = {key: entry.default for key, entry in SCHEMA.items()}
        self._origins: dict[str, Provenance] = {}
        self._left_out: list[LeftOut] = []

    def names(self) -> tuple[str, ...]:
        """Names of all settings."""
        return tuple(self._settings)

    def get(self, name: str) -> object:
        """Value of one setting, or None where the source has no such setting."""
        return self._settings.get(name)

    def number(self, name: str) -> float:
        """Value of a setting that has to be a number; 0 where it is absent or None."""
        value = self._settings.get(name)
        if value is None:
            return 0.0
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise CardError(f"{self._label}: {name}: found {show(value)}, allowed: a number.")
        if not -_LARGEST <= value <= _LARGEST:  # false for NaN too
            raise CardError(f"{self._label}: {name}: found {show(value)}, allowed: finite numbers.")
        return float(value)

    def size(self, name: str) -> float:
        """Value of a setting that has to be a number of 0 or more."""
        value = self.number(name)
        if value < 0:
            raise CardError(f"{self._label}: {name}: found {value:g}, allowed: 0 or more.")
        return value

    def count(self, name: str, most: int) -> int:
        """Value of a setting that has to be a whole number from 0 to ``most``."""
        value = self.size(name)
        if value != int(value) or value > most:
            raise CardError(
                f"{self._label}: {name}: found {value:g}, allowed: a whole number from 0 to {most}."
            )
        return int(value)

    def carry(
        self, key: str, value: object, *names: str, kind: Kind = "assumed", why: str = ""
    ) -> None:
        """Set a card entry (SI) from the settings ``names``, which are done with."""
        origin = f"import of {self._label}"
        entry = find_entry(key, origin)
        if isinstance(value, Table):
            self._values[entry.key] = value
        else:
            self._values[entry.key] = check_value(entry, value, origin)
        where = f"{self._label}: {', '.join(names)}" if names else self._label
        self._origins[entry.key] = Provenance(kind, self._source, where, why)
        self.done(*names)

    def leave(self, name: str, why: str) -> None:
        """List a setting as left out, or as carried only in part."""
        if name in self._settings:
            self._left_out.append(LeftOut(name, show(self._settings[name]), why))
            self.done(name)

    def done(self, *names: str) -> None:
        """Settings that are carried, or have no effect."""
        for name in names:
            self._open.pop(name, None)

    def done_below(self, *prefixes: str) -> None:
        """Settings at and below each dotted prefix that have no effect."""
        for name in list(self._open):
            if any(name == prefix or name.startswith(f"{prefix}.") for prefix in prefixes):
                self.done(name)

    def leave_rest(
        self, idle: Callable[[str, object], bool], reason: Callable[[str], str]
    ) -> None:
        """List every setting that nobody has dealt with, unless ``idle`` says it has no effect."""
        for name in list(self._open):
            if idle(name, self._settings[name]):
                self.done(name)
            else:
                self.leave(name, reason(name))

    def finish(self, name: str, title: str, description: str, technology: str) -> Imported:
        """Check the entries together, and write the card.

        Raises
        ------
        CardError
            For values that no card may have.
        """
        if self._open:
            raise AssertionError(f"nobody has dealt with {', '.join(self._open)}")
        header = (name, title, description, technology)
        whole = make_card(header, self._values, self._origins, f"import of {self._label}")
        text = _only_what_is_set(whole.text())
        left_out = tuple(sorted(self._left_out, key=lambda item: item.field))
        if left_out:
            text += "\n# Not carried, or not exactly:\n"
            for item in left_out:
                text += f"# {item.field} = {' '.join(item.value.split())}: {item.why}\n"
        card = parse_card(text, shipped_sources(), f"import of {self._label}")
        return Imported(card, text, left_out)


def _only_what_is_set(text: str) -> str:
    """A card's text without the entries at their default, and without tables left empty."""
    blocks = []
    for block in text.split("\n\n"):
        lines = [line for line in block.splitlines() if 'kind = "default"' not in line]
        if len(lines) > 1:
            blocks.append("\n".join(lines))
    return "\n\n".join(blocks) + "\n"
