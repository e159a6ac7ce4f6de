"""What one direction of one array is: everything that a read of it needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from eptsim.base.streams import Stream
from eptsim.crossbar.cell_noise import CellNoise
from eptsim.crossbar.flicker import Flicker
from eptsim.crossbar.stages import LineStage
from eptsim.crossbar.tiles import operand


@dataclass(frozen=True)
class ReferenceColumn:
    """Read noise of the reference columns of one array, seen from one direction.

    The reference cell of a word line serves every bit line of its tile. Reading forward, all
    outputs of the tile share its noise; reading transposed, it is one more cell on the line,
    driven by minus the sum of the tile's drives.

    Attributes
    ----------
    variance : (slices, out_tiles, in)
        Variance of one read of each reference cell, in units of the stored weights.
    out_tiles : list of slice
        Bit lines of each tile.
    stream : Stream
        Source of the shared draws.
    """

    variance: torch.Tensor
    out_tiles: list[slice]
    stream: Stream


@dataclass(frozen=True)
class Segment:
    """The lines of one tile that make one partial sum, of one slice of the weights."""

    k: int
    part: slice


@dataclass(frozen=True)
class Plan:
    """Everything that one direction of one array needs for a read.

    Attributes
    ----------
    path : str
        Name of the array, for messages.
    stored : (slices, out, in)
        Stored weights, in units of ``scale``; one slice, digitally combined, where the read is
        exact.
    oriented : (slices, inner, lines)
        The same, as this direction multiplies them.
    scale : float
        Digital scale after the sum of the partial sums; 1 where the read is exact.
    largest : float
        Largest magnitude of ``stored``.
    factor : (segments, lines) or None
        Digital factor of each partial sum.
    input_scale : (inner,) or None
        Digital factor of each input.
    noise : CellNoise or None
        Read noise of the cells.
    flicker : Flicker or None
        What moves the stored weights with time.
    bend : callable or None
        What the cells make of a drive that an amplitude carries, elementwise.
    segments : list of Segment
        Partial sums, added digitally.
    correction : (segments, lines) or None
        Offsets found by a calibration, subtracted after the ADC where no reference is given.
    """

    path: str
    forward: bool
    stored: torch.Tensor
    oriented: torch.Tensor
    scale: float
    largest: float
    factor: torch.Tensor | None
    input_scale: torch.Tensor | None
    noise: CellNoise | None
    reference_column: ReferenceColumn | None
    flicker: Flicker | None
    bend: Callable[[torch.Tensor], torch.Tensor] | None
    segments: list[Segment]
    stage: LineStage
    stream: Stream
    fused: bool
    correction: torch.Tensor | None = None

    @property
    def inner(self) -> int:
        """Number of inputs."""
        return self.oriented.shape[1]

    @property
    def lines(self) -> int:
        """Number of outputs."""
        return self.oriented.shape[2]

    def weights_at(self, time_s: float) -> torch.Tensor:
        """Stored weights at ``time_s``, (slices, inner, lines)."""
        if self.flicker is None:
            return self.oriented
        return orient(self.flicker.at(self.stored, time_s), self.forward)


def orient(stored: torch.Tensor, forward: bool) -> torch.Tensor:
    """``stored`` (slices, out, in) as one direction multiplies it, (slices, inner, lines)."""
    return operand(stored.transpose(1, 2)) if forward else stored
