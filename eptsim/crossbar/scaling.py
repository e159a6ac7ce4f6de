"""The digital side of the mapping: scales that make weights fill the conductances, and digits.

A weight becomes ``scale * relative * w`` with |w| <= 1, ``relative`` shared by a tile or by an
output line (card entry ``array.scaling``). With ``array.slices`` K > 1, w is written in K digits
of base ``cell.levels``, the most significant first; ``digits`` are what they count for, and add up
to 1.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from eptsim.cards.array_entries import Array as ArrayEntries
from eptsim.crossbar.tiles import cut

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Tiling:
    """The slices of output and input lines that share a tile."""

    out: list[slice]
    inner: list[slice]

    @classmethod
    def of(cls, shape: tuple[int, int], array: ArrayEntries) -> Tiling:
        """Tiles of a matrix (out, in) on tiles of ``array.rows`` inputs x ``array.columns``."""
        return cls(cut(shape[0], array.columns), cut(shape[1], array.rows))

    @property
    def shape(self) -> tuple[int, int]:
        """Size (out, in) of the matrix."""
        return self.out[-1].stop, self.inner[-1].stop

    def lines(self, direction: str, slices: int) -> tuple[int, int]:
        """Number of segments and of lines that a read in one direction senses."""
        forward = direction == "forward"
        along = self.inner if forward else self.out
        return slices * len(along), self.shape[0 if forward else 1]


@dataclass(frozen=True)
class Scales:
    """Digital factors between a weight and what its cells hold.

    Attributes
    ----------
    scale : float
        Largest scale of any group (1 for an all-zero matrix).
    tile : (out_tiles, in_tiles) or None
        Scale of each tile over ``scale``.
    column : (out,) or None
        Scale of each output line over ``scale``.
    digits : (slices,)
        What each slice counts for.
    """

    scale: float
    tile: Array | None
    column: Array | None
    digits: Array

    def relative(self, tiling: Tiling) -> Array:
        """Scale of each weight over ``scale``, (out, in) or broadcasting to it."""
        if self.column is not None:
            return self.column[:, None]
        if self.tile is None:
            return np.ones((1, 1))
        counts = [np.array([s.stop - s.start for s in part]) for part in (tiling.out, tiling.inner)]
        return np.repeat(np.repeat(self.tile, counts[0], axis=0), counts[1], axis=1)


def scales_of(
    weight: Array, tiling: Tiling, scaling: str, clip_percentile: float | None, digits: Array
) -> Scales:
    """Scales of ``weight`` (out, in): the ``clip_percentile`` of the magnitudes of each group."""
    size = np.abs(weight)
    tile = column = None
    if scaling == "tile":
        tile = np.array(
            [[_top(size[o, i], clip_percentile) for i in tiling.inner] for o in tiling.out]
        )
    elif scaling == "column":
        column = np.array([_top(row, clip_percentile) for row in size])
    found = tile if tile is not None else column
    scale = float(_top(size, clip_percentile) if found is None else found.max()) or 1.0
    if found is not None:
        found[found == 0] = scale  # nothing to scale in an all-zero group
        found /= scale
    return Scales(scale, tile, column, digits)


def _top(size: Array, percentile: float | None) -> float:
    if percentile is None or percentile == 100.0:
        return float(size.max())
    # where most weights are zero, the percentile may be
    return float(np.percentile(size, percentile)) or float(size.max())


def digit_weights(slices: int, levels: int | None) -> Array:
    """What each of ``slices`` digits of base ``levels`` counts for, adding up to 1."""
    if slices == 1 or levels is None:
        return np.ones(1)
    place = float(levels) ** np.arange(slices - 1, -1, -1)
    return np.asarray(place * (levels - 1) / (float(levels) ** slices - 1))


def to_digits(x: Array, slices: int, levels: int | None) -> Array:
    """Digits (slices, ...) of ``x`` in [0, 1], each over its own largest value.

    ``x`` is rounded to ``levels ** slices`` equally spaced values; one slice keeps it as it is.
    """
    if slices == 1 or levels is None:
        return x[None]
    rest = np.rint(x * (float(levels) ** slices - 1)).astype(np.int64)
    digits = np.empty((slices, *x.shape))
    for k in range(slices - 1, -1, -1):
        digits[k] = (rest % levels) / (levels - 1)
        rest //= levels
    return digits
