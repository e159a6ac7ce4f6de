"""Wire resistance, nearly: each line as a ladder of its own, for training.

The voltage of a cell on word line i falls along the line as on a ladder whose shunts are the
line's own cells, taken to ground: a_ij. By reciprocity, the part of its current that reaches the
end of bit line j is the voltage b_ij of the same kind of ladder, driven at that end. So

    G_ij = a_ij g_ij b_ij,

which is exact where only the word lines, or only the bit lines, have resistance, and else wrong
in second order of the resistances. It takes O(rows x columns) operations.
"""

from __future__ import annotations

from typing import Any, overload

import numba as nb
import numpy as np
from torch import Tensor

from eptsim.crossbar.wires import (
    Array,
    checked_conductances,
    checked_resistances,
    every_tile,
    like,
)

_OPTIONS: dict[str, Any] = {"error_model": "numpy", "nogil": True, "cache": True}


@overload
def ladder_conductance(
    g_s: Tensor, r_word_ohm: float, r_bit_ohm: float, *, driver_ohm: float = 0.0,
    sense_ohm: float = 0.0,
) -> Tensor: ...
@overload
def ladder_conductance(
    g_s: Array, r_word_ohm: float, r_bit_ohm: float, *, driver_ohm: float = 0.0,
    sense_ohm: float = 0.0,
) -> Array: ...
def ladder_conductance(
    g_s: Tensor | Array,
    r_word_ohm: float,
    r_bit_ohm: float,
    *,
    driver_ohm: float = 0.0,
    sense_ohm: float = 0.0,
) -> Tensor | Array:
    """Effective conductances of tiles with resistive lines, approximately, in float64.

    Exact for ``r_bit_ohm = sense_ohm = 0`` and for ``r_word_ohm = driver_ohm = 0``; else the
    relative error is of the order of the product of what a word line and a bit line lose. Like
    :func:`eptsim.effective_conductance`, it is reciprocal. No gradient is taken through it.

    Parameters
    ----------
    g_s : (..., rows, columns), siemens
        Cell conductances, all >= 0; torch tensor or numpy array. Leading dimensions are tiles.
    r_word_ohm, r_bit_ohm : float
        Resistance of one word-line and one bit-line segment, >= 0.
    driver_ohm, sense_ohm : float
        Resistance in series with the first word-line and the last bit-line segment, >= 0.

    Returns
    -------
    (..., rows, columns), siemens, float64, the type and device of ``g_s``
        Current of bit line j per volt on word line i, all other word lines grounded.

    Raises
    ------
    InputError
        For conductances or resistances that are negative, not finite or not real numbers, for
        fewer than two dimensions or an empty one, and where a result would overflow.
    """
    what = "ladder_conductance"
    g = checked_conductances(what, g_s)
    ohms = checked_resistances(what, r_word_ohm, r_bit_ohm, driver_ohm, sense_ohm)

    def solve(flat: Array, result: Array, start: int, stride: int) -> None:
        for n in range(start, len(flat), stride):
            _tile(flat[n], *ohms, result[n])

    return like(g_s, every_tile(what, g, ohms, solve))


@nb.njit(**_OPTIONS)
def _tile(g, word, first, bit, last, out):  # type: ignore[no-untyped-def]
    """Fill ``out`` with a_ij g_ij b_ij.

    With y the conductance of a line from a node on, seen from the driven end, the voltage of the
    node is 1 / (1 + r y) of that of the node before.
    """
    rows, columns = g.shape
    y, v = np.zeros(columns), np.ones(columns)
    for i in range(rows):  # bit lines are driven at the bottom
        r = last if i == rows - 1 else bit
        for j in range(columns):
            y[j] += g[i, j]
            out[i, j] = 1.0 / (1.0 + r * y[j])
            y[j] *= out[i, j]
    for i in range(rows - 1, -1, -1):
        for j in range(columns):
            v[j] *= out[i, j]
            out[i, j] = v[j] * g[i, j]
    part = np.empty(columns)
    for i in range(rows):  # word lines are driven at the left
        seen = 0.0
        for j in range(columns - 1, -1, -1):
            seen += g[i, j]
            part[j] = 1.0 / (1.0 + (first if j == 0 else word) * seen)
            seen *= part[j]
        left = 1.0
        for j in range(columns):
            left *= part[j]
            out[i, j] *= left
