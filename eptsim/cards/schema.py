"""The closed set of card entries: what each is, in which unit, and what it may be.

The typed sections below are both what a card is made of (``card.cell.g_max_s``) and where each
entry is defined: its limits, unit and meaning stand in the annotation, and ``SCHEMA`` is read off
them. To add an entry, add one field.

Normalisation, everywhere: the largest stored weight is 1 and a full-scale input is 1, so one read
of a tile is ``y = W x`` with ``|W| <= 1``; ``output_range`` is in those units.
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field

from eptsim.base.units import base_unit

Value: TypeAlias = float | int | str | None
"""What an entry holds, in SI: a number, a choice, or None for ideal."""

DirectionName: TypeAlias = Literal["forward", "transpose"]

DEFAULT_FULL_SCALE = 12.0
"""Unit of offset and line noise where a card sets no ``output_range``."""


@dataclass(frozen=True, slots=True)
class Spec:
    """Limits and meaning of one entry, written in the annotation of its field."""

    doc: str
    dimension: str = "dimensionless"
    low: float = 0.0
    high: float = 1.0
    above_low: bool = False
    """True where ``low`` itself is not allowed."""
    has_ideal: bool = True
    """False where no value means 'no flaw', so ``None`` cannot be given."""
    simulated: bool = True
    """False while the crossbar refuses any value but the ideal one."""


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class Programming(_Section):
    """How far a programmed conductance lies from its target."""

    sigma: Annotated[
        float,
        Spec(
            "Standard deviation of the programmed conductance of each cell, as a fraction of "
            "g_max_s; drawn once per cell and chip."
        ),
    ] = 0.0


class ReadNoise(_Section):
    """Cycle-to-cycle noise of a cell, drawn anew at every read."""

    law: Annotated[
        Literal["none", "constant", "proportional"],
        Spec(
            "How the noise of a cell depends on its conductance G: 'constant' is the same for "
            "every cell, 'proportional' grows with G."
        ),
    ] = "none"
    sigma: Annotated[
        float,
        Spec(
            "Standard deviation at each read: with law 'constant' as a fraction of g_max_s, with "
            "law 'proportional' as a fraction of G."
        ),
    ] = 0.0


class Drift(_Section):
    """Power law of a conductance after programming: G(t) = G(t0) (t / t0)^-nu."""

    nu: Annotated[float, Spec("Mean drift exponent over the cells.")] = 0.0
    nu_sigma: Annotated[float, Spec("Standard deviation of the drift exponent over the cells.")] = (
        0.0
    )
    time_s: Annotated[
        float,
        Spec(
            "Time since programming at which the chip is read; acts only with nu or nu_sigma.",
            dimension="time",
            high=1e12,
            above_low=True,
            has_ideal=False,
        ),
    ] = 3600.0
    t0_s: Annotated[
        float,
        Spec(
            "Time after programming at which the stored conductance is exact, before drift; "
            "acts only with nu or nu_sigma.",
            dimension="time",
            high=1e12,
            above_low=True,
            has_ideal=False,
        ),
    ] = 20.0


class Stuck(_Section):
    """Cells that cannot be programmed, drawn once per chip."""

    low: Annotated[float, Spec("Fraction of the cells stuck at g_min_s.")] = 0.0
    high: Annotated[float, Spec("Fraction of the cells stuck at g_max_s.")] = 0.0


class Cell(_Section):
    """One memory cell."""

    g_min_s: Annotated[float, Spec("Lowest programmable conductance.", dimension="conductance")] = (
        0.0
    )
    g_max_s: Annotated[
        float,
        Spec(
            "Highest programmable conductance.",
            dimension="conductance",
            above_low=True,
            has_ideal=False,
        ),
    ] = 1e-5
    levels: Annotated[
        int | None,
        Spec(
            "Number of equally spaced conductances from g_min_s to g_max_s that a cell can be "
            "programmed to; ideal: any conductance.",
            low=2,
            high=2**24,
        ),
    ] = None
    programming: Programming = Field(default_factory=Programming)
    read_noise: ReadNoise = Field(default_factory=ReadNoise)
    drift: Drift = Field(default_factory=Drift)
    stuck: Stuck = Field(default_factory=Stuck)


class Array(_Section):
    """The tiles that a matrix is spread over, and how a weight becomes conductances."""

    rows: Annotated[
        int | None,
        Spec(
            "Word lines per tile, the inputs of the forward read; ideal: all of the matrix.",
            low=1,
            high=2**24,
        ),
    ] = None
    columns: Annotated[
        int | None,
        Spec(
            "Weights per word line of a tile, the outputs of the forward read; ideal: all of the "
            "matrix.",
            low=1,
            high=2**24,
        ),
    ] = None
    mapping: Annotated[
        Literal["differential", "reference_column", "offset"],
        Spec(
            "How a signed weight is stored: a pair of cells, one cell against a shared reference "
            "column, or one cell with a digital offset.",
            has_ideal=False,
        ),
    ] = "differential"
    wire_word_ohm: Annotated[
        float | None,
        Spec(
            "Wire resistance between two neighbouring cells of a word line.",
            dimension="resistance",
            high=1e6,
            simulated=False,
        ),
    ] = None
    wire_bit_ohm: Annotated[
        float | None,
        Spec(
            "Wire resistance between two neighbouring cells of a bit line.",
            dimension="resistance",
            high=1e6,
            simulated=False,
        ),
    ] = None


class Node(_Section):
    """The state node that holds a block boundary."""

    offset: Annotated[
        float,
        Spec(
            "Standard deviation of the constant force on a state node, in units of the state's "
            "root mean square; frozen per chip.",
            high=100.0,
        ),
    ] = 0.0


class Direction(_Section):
    """The converters and lines of one read direction."""

    dac_bits: Annotated[
        int | None,
        Spec("Resolution of the input converter.", dimension="bits", low=1, high=24),
    ] = None
    adc_bits: Annotated[
        int | None,
        Spec("Resolution of the output converter.", dimension="bits", low=1, high=24),
    ] = None
    input_range: Annotated[
        float | None,
        Spec(
            "Largest input that the input converter drives, a full-scale input being 1; larger "
            "ones are clipped; ideal: not clipped.",
            high=1e6,
            above_low=True,
        ),
    ] = None
    output_range: Annotated[
        float | None,
        Spec(
            "Full scale of the output converter, in units of (largest weight) x (full-scale "
            "input); larger outputs are clipped; ideal: not clipped, with step, offset and line "
            f"noise as in a range of {DEFAULT_FULL_SCALE:g}.",
            high=1e6,
            above_low=True,
        ),
    ] = None
    offset: Annotated[
        float,
        Spec(
            "Standard deviation of the offset over the lines, as a fraction of output_range; "
            "frozen per chip."
        ),
    ] = 0.0
    gain: Annotated[
        float,
        Spec("Standard deviation of the gain error over the lines, relative; frozen per chip."),
    ] = 0.0
    offset_drift: Annotated[
        float,
        Spec(
            "Standard deviation by which an offset wanders between two phases, as a fraction of "
            "output_range.",
            simulated=False,
        ),
    ] = 0.0
    line_noise: Annotated[
        float,
        Spec(
            "Standard deviation of the noise of a line at each read, as a fraction of output_range."
        ),
    ] = 0.0

    @property
    def full_scale(self) -> float:
        """The unit of ``offset`` and ``line_noise``: ``output_range``, or 12 where it is None."""
        return DEFAULT_FULL_SCALE if self.output_range is None else self.output_range


class Sections(_Section):
    """Everything in a card that can change a result."""

    cell: Cell = Field(default_factory=Cell)
    array: Array = Field(default_factory=Array)
    node: Node = Field(default_factory=Node)
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
    def allowed(self) -> str:
        """The allowed values in words, for error messages and tables."""
        if self.choices:
            return " or ".join(repr(name) for name in self.choices)
        spec = self.spec
        bracket = "(" if spec.above_low else "["
        unit = "" if self.unit == "1" else f" {self.unit}"
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
            integer=int in args,
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
