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
        given: tuple[tuple[str, object], ...] = (("x", self.x), ("y", self.y))
        for name, points in given:
            if not isinstance(points, tuple) or not all(_is_number(value) for value in points):
                raise InputError(
                    f"table: {name}: found {type(points).__name__}, allowed: a tuple of numbers "
                    "(Table.of takes any sequence)."
                )
            object.__setattr__(self, name, tuple(float(value) for value in points))
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
        found = []
        for name, values in (("x", x), ("y", y)):
            try:
                found.append(tuple(float(value) for value in values))
            except (TypeError, ValueError, OverflowError) as error:
                raise InputError(
                    f"table: {name}: found {type(values).__name__} ({error}), allowed: a sequence "
                    "of numbers."
                ) from error
        return cls(found[0], found[1])

    def at(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Value of y at ``values`` (any shape), by linear interpolation."""
        return np.asarray(np.interp(values, self.x, self.y))


def _is_number(value: object) -> bool:
    """Whether ``value`` is a real number that a float can hold, NaN and infinity included."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        return False
    return not isinstance(value, int) or abs(value) < 2**1023
