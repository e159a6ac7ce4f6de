"""A curve given by points: what a paper or a measurement tabulates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from eptsim.base.errors import InputError


@dataclass(frozen=True, slots=True)
class Table:
    """y over x by points, linear in between; beyond the ends the last value holds.

    Attributes
    ----------
    x, y : tuple of float
        Points in SI, at least two of them; ``x`` rises strictly.

    Raises
    ------
    InputError
        For fewer than two points, unequal lengths, an ``x`` that does not rise, or NaN or infinity.
    """

    x: tuple[float, ...]
    y: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.x) != len(self.y):
            raise InputError(
                f"table: found {len(self.x)} points of x and {len(self.y)} of y, allowed: as many "
                "of each."
            )
        if len(self.x) < 2:
            raise InputError(f"table: found {len(self.x)} points, allowed: two or more.")
        if not all(math.isfinite(value) for value in (*self.x, *self.y)):
            raise InputError("table: found NaN or infinity, allowed: finite numbers.")
        for left, right in zip(self.x, self.x[1:], strict=False):
            if not left < right:
                raise InputError(
                    f"table: found x = {right:g} after {left:g}, allowed: an x that rises strictly."
                )

    @classmethod
    def of(cls, x: Sequence[float], y: Sequence[float]) -> Table:
        """Table of any two sequences of numbers (lists, NumPy arrays), in SI."""
        return cls(tuple(float(value) for value in x), tuple(float(value) for value in y))

    def at(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Value of y at ``values`` (any shape), by linear interpolation."""
        return np.asarray(np.interp(values, self.x, self.y))
