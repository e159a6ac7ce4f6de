"""Wire resistance, exactly: the one matrix that a passive tile with resistive lines is.

A tile of conductances with wire segments between its cells is a linear network, so drives and
sensed currents are related by one effective conductance matrix.

Circuit: word line i is driven at its left end, through the driver's resistance and one word-line
segment, and has one segment between neighbouring columns; bit line j has one segment between
neighbouring rows, and is sensed at its bottom end, through one segment and the input resistance
of the sense amplifier, into virtual ground. The network is reciprocal: driven at the sensing ends
and sensed at the driving ends, it shows the transpose of the same matrix.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, overload

import numba as nb
import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from eptsim.base.errors import InputError
from eptsim.cards.check import show
from eptsim.crossbar.checks import DEVICES
from eptsim.crossbar.wire_blocks import solve_every
from eptsim.crossbar.wire_plan import plan_of

Array = npt.NDArray[np.float64]
_MOST = sys.float_info.max


@overload
def effective_conductance(
    g_s: Tensor, r_word_ohm: float, r_bit_ohm: float, *, driver_ohm: float = 0.0,
    sense_ohm: float = 0.0,
) -> Tensor: ...
@overload
def effective_conductance(
    g_s: Array, r_word_ohm: float, r_bit_ohm: float, *, driver_ohm: float = 0.0,
    sense_ohm: float = 0.0,
) -> Array: ...
def effective_conductance(
    g_s: Tensor | Array,
    r_word_ohm: float,
    r_bit_ohm: float,
    *,
    driver_ohm: float = 0.0,
    sense_ohm: float = 0.0,
) -> Tensor | Array:
    """Effective conductances of tiles with resistive word and bit lines, in float64.

    Solved by nested dissection (:mod:`eptsim.crossbar.wire_blocks`), in O(n^3) operations for
    n x n cells. Every resistance may be 0. A tile's result does not depend on the tiles that
    are given with it, nor on the number of threads; numba's number of threads is used. No
    gradient is taken through it.

    Parameters
    ----------
    g_s : (..., rows, columns), siemens
        Cell conductances, all >= 0; torch tensor or numpy array. Leading dimensions are tiles.
    r_word_ohm, r_bit_ohm : float
        Resistance of one word-line and one bit-line segment, >= 0.
    driver_ohm, sense_ohm : float
        Output resistance of a word line's driver and input resistance of a bit line's sense
        amplifier, >= 0: in series with the first word-line and the last bit-line segment.

    Returns
    -------
    (..., rows, columns), siemens, float64, the type and device of ``g_s``
        Current of bit line j per volt on word line i, all other word lines grounded; >= 0.

    Raises
    ------
    InputError
        For conductances or resistances that are negative, not finite or not real numbers, for
        fewer than two dimensions or an empty one, and where a result would overflow.
    """
    what = "effective_conductance"
    g = checked_conductances(what, g_s)
    ohms = checked_resistances(what, r_word_ohm, r_bit_ohm, driver_ohm, sense_ohm)
    plan, sizes = plan_of(*g.shape[-2:])

    def solve(flat: Array, result: Array, start: int, stride: int) -> None:
        solve_every(flat, plan, sizes, np.array(ohms), start, stride, result)

    return like(g_s, every_tile(what, g, ohms, solve))


def every_tile(
    what: str,
    g: Array,
    ohms: tuple[float, float, float, float],
    solve: Callable[[Array, Array, int, int], object],
) -> Array:
    """Solve tiles ``g`` (..., rows, columns) on numba's threads, or InputError on overflow.

    ``solve(tiles, result, start, stride)`` fills the results of tiles start, start + stride, ...
    of (tiles, rows, columns).
    """
    flat = g.reshape(-1, *g.shape[-2:])
    result = np.empty_like(flat)
    _on_threads(len(flat), lambda n, stride: solve(flat, result, n, stride))
    if not np.isfinite(result).all():
        raise InputError(
            f"{what}: found conductances up to {g.max():g} S with resistances up to "
            f"{max(ohms):g} ohm, allowed: a range that float64 can hold."
        )
    return result.reshape(g.shape)


def _on_threads(tiles: int, work: Callable[[int, int], object]) -> None:
    """Call ``work(n, stride)`` on each of numba's threads, for tiles n, n + stride, ..."""
    threads = min(tiles, nb.get_num_threads())
    if threads == 1:
        work(0, 1)
        return
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(lambda n: work(n, threads), range(threads)))


def like(given: Tensor | Array, result: Array) -> Tensor | Array:
    """``result`` as a tensor on the device of ``given``, or as the array it is."""
    if isinstance(given, Tensor):
        return torch.from_numpy(result).to(given.device)
    return result


def checked_conductances(what: str, g_s: Tensor | Array) -> Array:
    """``g_s`` (..., rows, columns) in S as a contiguous float64 array, or InputError."""
    if not isinstance(g_s, Tensor | np.ndarray):
        raise InputError(
            f"{what}: g_s: found {type(g_s).__name__}, allowed: a torch tensor or numpy array."
        )
    values = _on_host(what, g_s) if isinstance(g_s, Tensor) else g_s
    if values.dtype.kind not in "fiu":
        raise InputError(f"{what}: g_s: found {g_s.dtype}, allowed: real numbers.")
    if values.ndim < 2 or 0 in values.shape:
        raise InputError(
            f"{what}: g_s: found shape {tuple(values.shape)}, allowed: (..., rows, columns) with "
            "no empty dimension."
        )
    g = np.ascontiguousarray(values, dtype=np.float64)
    if not np.isfinite(g).all() or (g < 0).any():
        raise InputError(
            f"{what}: g_s: found a negative or non-finite conductance, allowed: finite values of "
            "0 or more (siemens)."
        )
    return g


def _on_host(what: str, g_s: Tensor) -> npt.NDArray[Any]:
    """A tensor as an array, if it has one's layout and holds data."""
    if g_s.layout != torch.strided or g_s.device.type not in DEVICES:
        raise InputError(
            f"{what}: g_s: found {g_s.layout} on {g_s.device}, allowed: torch.strided on "
            f"{' or '.join(DEVICES)}."
        )
    if g_s.is_floating_point():
        g_s = g_s.double()  # numpy has no bfloat16
    return np.asarray(g_s.detach().cpu().numpy())


def checked_resistances(
    what: str, r_word_ohm: float, r_bit_ohm: float, driver_ohm: float, sense_ohm: float
) -> tuple[float, float, float, float]:
    """Word-line segment, the first one, bit-line segment, the last one, in ohm, or InputError."""
    named = {
        "r_word_ohm": r_word_ohm, "r_bit_ohm": r_bit_ohm, "driver_ohm": driver_ohm,
        "sense_ohm": sense_ohm,
    }
    for name, value in named.items():
        number = isinstance(value, int | float | np.integer | np.floating)
        if not number or isinstance(value, bool) or not 0 <= value <= _MOST:
            raise InputError(f"{what}: {name}: found {show(value)}, allowed: 0 or more (ohm).")
    word, bit = float(r_word_ohm), float(r_bit_ohm)
    return word, word + float(driver_ohm), bit, bit + float(sense_ohm)
