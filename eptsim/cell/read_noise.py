"""Temporal read noise of one cell: the law gives its standard deviation for each conductance."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from eptsim.base.errors import InputError, choice
from eptsim.base.table import Table

LAWS = ("none", "constant", "proportional", "sqrt", "table")


def sigma_s(
    g_s: npt.NDArray[np.float64],
    law: str,
    sigma: float,
    g_max_s: float,
    table: Table | None = None,
) -> npt.NDArray[np.float64]:
    """Standard deviation (S) of one read of cells of conductance ``g_s`` (S, any shape, >= 0).

    ``none``: zero. ``constant``: ``sigma * g_max_s`` for every cell. ``proportional``:
    ``sigma * g``. ``sqrt``: ``sigma * sqrt(g * g_max_s)``. ``table``: as ``table`` says
    (standard deviation in S over conductance in S), never below 0.

    Raises
    ------
    InputError
        For an unknown law, or the law ``table`` without a table.
    """
    choice(law, LAWS, "read noise law")
    if law == "constant":
        return np.full_like(g_s, sigma * g_max_s)
    if law == "proportional":
        return sigma * g_s
    if law == "sqrt":
        return np.asarray(sigma * np.sqrt(g_s) * np.sqrt(g_max_s))  # g g_max could underflow
    if law == "table":
        if table is None:
            raise InputError("read noise law 'table': found no table, allowed: a Table.")
        return np.maximum(table.at(g_s), 0.0)
    return np.zeros_like(g_s)
