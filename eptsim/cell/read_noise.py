"""Temporal read noise of one cell: the law gives its standard deviation for each conductance."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

LAWS = ("none", "constant", "proportional")


def sigma_s(
    g_s: npt.NDArray[np.float64], law: str, sigma: float, g_max_s: float
) -> npt.NDArray[np.float64]:
    """Standard deviation (S) of one read of cells of conductance ``g_s`` (S, any shape).

    ``constant``: ``sigma * g_max_s`` for every cell. ``proportional``: ``sigma * g``.
    ``none``: zero.
    """
    if law == "constant":
        return np.full_like(g_s, sigma * g_max_s)
    if law == "proportional":
        return sigma * g_s
    return np.zeros_like(g_s)
