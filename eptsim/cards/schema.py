"""The closed set of card entries: what each is, in which unit, and what it may be.

The typed sections (``cell_entries``, ``array_entries``) are both what a card is made of
(``card.cell.g_max_s``) and where each entry is defined: its limits, unit and meaning stand in the
annotation, and ``SCHEMA`` is read off them. To add an entry, add one field.

Normalisation, everywhere: the largest stored weight is 1 and a full-scale input is 1, so one read
of a tile is ``y = W x`` with ``|W| <= 1``; ``output_range`` is in those units.
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, Union, get_args, get_origin

from pydantic import BaseModel, Field

from eptsim.base.units import base_unit
from eptsim.cards.array_entries import Array, Clock, Direction, Node
from eptsim.cards.cell_entries import Cell
from eptsim.cards.spec import Section, Spec, Value


class Sections(Section):
    """Everything in a card that can change a result."""

    cell: Cell = Field(default_factory=Cell)
    array: Array = Field(default_factory=Array)
    node: Node = Field(default_factory=Node)
    clock: Clock = Field(default_factory=Clock)
    forward: Direction = Field(default_factory=Direction)
    transpose: Direction = Field(default_factory=Direction)


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of the schema, with its dotted key."""

    key: str
    spec: Spec
    default: Value
    integer: bool
    optional: bool
    choices: tuple[str, ...]

    @property
    def unit(self) -> str:
        """Symbol of the unit that the value has inside eptsim; empty for a choice."""
        return "" if self.choices else base_unit(self.spec.dimension)

    @property
    def table(self) -> bool:
        """Whether the entry is a curve given by points."""
        return bool(self.spec.x_dimension)

    @property
    def x_unit(self) -> str:
        """Symbol of the unit of x inside eptsim, for a table."""
        return base_unit(self.spec.x_dimension)

    @property
    def allowed(self) -> str:
        """The allowed values in words, for error messages and tables."""
        if self.choices:
            return " or ".join(repr(name) for name in self.choices)
        spec = self.spec
        bracket = "(" if spec.above_low else "["
        unit = "" if self.unit == "1" else f" {self.unit}"
        if self.table:
            over = " over ".join(reversed(spec.columns))
            return (
                f"a table of {over}, each in [{spec.low:.10g}, {spec.high:.10g}]{unit}, or absent"
            )
        kind = "a whole number" if self.integer else "a number"
        ideal = ", or absent for ideal" if spec.has_ideal else ""
        return f"{kind} in {bracket}{spec.low:.10g}, {spec.high:.10g}]{unit}{ideal}"


def _walk(section: type[BaseModel], prefix: str) -> Iterator[Entry]:
    for name, field in section.model_fields.items():
        key = f"{prefix}{name}"
        specs = [item for item in field.metadata if isinstance(item, Spec)]
        if not specs:
            inner = field.annotation
            if not (isinstance(inner, type) and issubclass(inner, BaseModel)):
                raise TypeError(f"{key}: neither a section nor an entry with a Spec")
            yield from _walk(inner, f"{key}.")
            continue
        origin, args = get_origin(field.annotation), get_args(field.annotation)
        optional = origin in (Union, types.UnionType)
        yield Entry(
            key=key,
            spec=specs[0],
            default=field.default,
            integer=field.annotation is int or int in args,
            optional=optional,
            choices=args if origin is Literal else (),
        )


SCHEMA: dict[str, Entry] = {entry.key: entry for entry in _walk(Sections, "")}
"""Every entry by its dotted key, in the order of the sections."""


def build(values: dict[str, Value]) -> Sections:
    """Return the typed sections for checked values, one for every key of ``SCHEMA``."""
    nested: dict[str, object] = {}
    for key, value in values.items():
        *parents, leaf = key.split(".")
        table = nested
        for parent in parents:
            inner = table.setdefault(parent, {})
            assert isinstance(inner, dict)
            table = inner
        table[leaf] = value
    return Sections.model_validate(nested)
