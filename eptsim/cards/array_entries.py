"""The card entries of an array: its tiles and wires, its converters and lines, its clock."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from eptsim.cards.spec import Section, Spec

DirectionName: TypeAlias = Literal["forward", "transpose"]

DEFAULT_FULL_SCALE = 12.0
"""Unit of offset and line noise where a card sets no ``output_range``."""


class Array(Section):
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
    scaling: Annotated[
        Literal["array", "tile", "column"],
        Spec(
            "What shares one digital scale, by which its largest weight is stored as the highest "
            "conductance: the array, each tile, or each output line.",
            has_ideal=False,
        ),
    ] = "array"
    clip_percentile: Annotated[
        float | None,
        Spec(
            "Percentile of the weight magnitudes that is stored as the highest conductance; "
            "larger weights are clipped; ideal: the largest, nothing is clipped.",
            high=100.0,
            above_low=True,
        ),
    ] = None
    slices: Annotated[
        int,
        Spec(
            "Number of cells that hold one weight (or each of its polarities) as digits of base "
            "cell.levels, each read by converters of its own and added digitally.",
            low=1,
            high=16,
            has_ideal=False,
        ),
    ] = 1
    wire_word_ohm: Annotated[
        float | None,
        Spec(
            "Wire resistance between two neighbouring cells of a word line.",
            dimension="resistance",
            high=1e9,
        ),
    ] = None
    wire_bit_ohm: Annotated[
        float | None,
        Spec(
            "Wire resistance between two neighbouring cells of a bit line.",
            dimension="resistance",
            high=1e9,
        ),
    ] = None
    driver_ohm: Annotated[
        float | None,
        Spec(
            "Resistance at the driven end of a word line, in series with its first segment.",
            dimension="resistance",
            high=1e9,
        ),
    ] = None
    sense_ohm: Annotated[
        float | None,
        Spec(
            "Resistance at the sensed end of a bit line, in series with its last segment.",
            dimension="resistance",
            high=1e9,
        ),
    ] = None
    wire_model: Annotated[
        Literal["exact", "ladder"],
        Spec(
            "How wires are solved: 'exact', or 'ladder', cheap and exact to first order in their "
            "resistance. Acts only with a resistance.",
            has_ideal=False,
        ),
    ] = "exact"
    coding: Annotated[
        Literal["pulse_width", "amplitude"],
        Spec(
            "What carries an input: the length of a pulse of one voltage, or its voltage, which "
            "a nonlinear cell.iv distorts. Acts only with cell.iv.",
            has_ideal=False,
        ),
    ] = "pulse_width"
    read_voltage_v: Annotated[
        float,
        Spec(
            "Voltage of a full-scale input, at which the conductances are defined; acts only "
            "with cell.iv.",
            dimension="voltage",
            low=1e-6,
            high=100.0,
            has_ideal=False,
        ),
    ] = 0.2


class Node(Section):
    """The state node that holds a block boundary."""

    offset: Annotated[
        float,
        Spec(
            "Standard deviation of the constant force on a state node, in units of the state's "
            "root mean square; frozen per chip.",
            high=100.0,
        ),
    ] = 0.0


class Clock(Section):
    """When reads happen: what moves between two of them depends on the time between them."""

    pass_s: Annotated[
        float,
        Spec(
            "Time of one trip over the arrays; acts only with cell.flicker or an offset_drift.",
            dimension="time",
            high=1e9,
            above_low=True,
            has_ideal=False,
        ),
    ] = 1e-5
    phase_interval_s: Annotated[
        float,
        Spec(
            "Pause between one phase and the next; acts only with cell.flicker or an "
            "offset_drift.",
            dimension="time",
            high=1e9,
        ),
    ] = 0.0


class Direction(Section):
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
            "Standard deviation by which the offset of a line wanders with time, as a fraction of "
            "output_range."
        ),
    ] = 0.0
    offset_time_s: Annotated[
        float,
        Spec(
            "Correlation time of that wander; acts only with offset_drift.",
            dimension="time",
            high=1e12,
            above_low=True,
            has_ideal=False,
        ),
    ] = 1e-3
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
