"""What a cell holds after programming: discrete levels, programming error, stuck cells."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from eptsim.base.errors import InputError
from eptsim.base.table import Table

Array = npt.NDArray[np.float64]


def to_levels(g_s: Array, g_min_s: float, g_max_s: float, levels: int | None) -> Array:
    """Round conductances ``g_s`` (S, any shape) to ``levels`` equally spaced values.

    The lowest level is ``g_min_s`` and the highest ``g_max_s``; ``None`` means a continuous cell.
    """
    if levels is None:
        return g_s
    step_s = (g_max_s - g_min_s) / (levels - 1)
    return g_min_s + np.rint((g_s - g_min_s) / step_s) * step_s


def programming_sigma_s(
    target_s: Array,
    g_max_s: float,
    sigma: float,
    linear: float,
    quadratic: float,
    table: Table | None,
) -> Array:
    """Standard deviation (S) of the programming error of cells aimed at ``target_s`` (S).

    ``table`` (conductance in S over target in S) if there is one; else the polynomial
    ``g_max_s (sigma + linear x + quadratic x^2)`` of x = target / g_max_s. Never below 0.
    Any shape. Such a polynomial is the PCM inference model of IBM's aihwkit (documentation,
    "PCM-based inference", programming noise).
    """
    if table is not None:
        return np.maximum(table.at(target_s), 0.0)
    x = target_s / g_max_s
    return np.maximum(g_max_s * (sigma + x * (linear + x * quadratic)), 0.0)


def programmed(g_s: Array, sigma_s: Array | float, normal: Array) -> Array:
    """Add a Gaussian programming error of standard deviation ``sigma_s`` (S) to ``g_s`` (S).

    ``normal`` holds standard normals of the same shape. A conductance cannot be negative, so the
    result is cut at 0 (Joshi et al., Nat. Commun. 11, 2473 (2020), use the same truncation).
    """
    return np.maximum(g_s + sigma_s * normal, 0.0)


def write_verify(
    target_s: Array,
    sigma_s: Array | float,
    tolerance_s: float,
    rounds: int,
    draw: Callable[[int], Array],
    low_s: Array | float,
    high_s: Array | float,
) -> tuple[Array, npt.NDArray[np.bool_]]:
    """Program cells again and again until they lie within ``tolerance_s`` of ``target_s``.

    Each round programs the cells that are still outside the tolerance, with a new error; the
    others keep what they hold. A cell can be aimed only at what it can hold, so the target is cut
    to ``low_s`` .. ``high_s`` before the error; the verifying read is noiseless and compares with
    the target as it was wanted. With p the probability that one attempt lies inside, a cell fails
    with probability (1 - p)^rounds.

    Parameters
    ----------
    target_s : array
        Wanted conductances (S), any shape.
    sigma_s : array or float
        Standard deviation of the error of one attempt (S).
    tolerance_s : float
        Largest distance (S) from the target that is accepted; infinity accepts the first attempt.
    rounds : int
        Largest number of attempts, the first one included.
    draw : callable
        ``draw(round)``, round = 0, 1, ..., gives standard normals of the shape of ``target_s``. It
        is not called any more once all cells are inside.
    low_s, high_s : array or float
        Lowest and highest conductance of each cell (S), as of :func:`cell_window`.

    Returns
    -------
    g_s : array
        Conductances (S), cut at 0.
    failed : array of bool
        Cells still outside after the last round.

    Raises
    ------
    InputError
        For fewer than one round.
    """
    if rounds < 1:
        raise InputError(f"rounds: found {rounds!r}, allowed: 1 or more.")
    aim_s = np.clip(target_s, low_s, high_s)
    g_s = programmed(aim_s, sigma_s, draw(0))
    failed = np.asarray(np.abs(g_s - target_s) > tolerance_s)
    for attempt in range(1, rounds):
        if not failed.any():
            break
        again = np.flatnonzero(failed)  # of flat views: indices in every dimension cost more
        sigma_again = np.broadcast_to(sigma_s, g_s.shape).ravel()[again]
        held_s = programmed(aim_s.ravel()[again], sigma_again, draw(attempt).ravel()[again])
        np.put(g_s, again, held_s)
        np.put(failed, again, np.abs(held_s - target_s.ravel()[again]) > tolerance_s)
    return g_s, failed


def cell_window(
    g_min_s: float,
    g_max_s: float,
    sigma_low: float,
    sigma_high: float,
    normal_low: Array,
    normal_high: Array,
) -> tuple[Array, Array]:
    """Lowest and highest conductance (S) of each cell, which spread around g_min and g_max.

    Gaussian with means ``g_min_s`` and ``g_max_s`` (S) and standard deviations ``sigma_low`` and
    ``sigma_high``, fractions of ``g_max_s``; ``normal_low`` and ``normal_high`` hold standard
    normals of the shape of the array. Both are cut at 0. A cell whose two ends cross does not
    switch: both are put at their mean.
    """
    low_s = np.maximum(g_min_s + sigma_low * g_max_s * normal_low, 0.0)
    high_s = np.maximum(g_max_s + sigma_high * g_max_s * normal_high, 0.0)
    mean_s = 0.5 * low_s + 0.5 * high_s
    crossed = low_s > high_s
    return np.where(crossed, mean_s, low_s), np.where(crossed, mean_s, high_s)


def stuck(
    g_s: Array,
    g_min_s: float,
    g_max_s: float,
    low: float,
    high: float,
    uniform: Array,
    random: float = 0.0,
    level: Array | None = None,
) -> Array:
    """Put a fraction ``low`` of the cells at ``g_min_s`` and a fraction ``high`` at ``g_max_s``.

    A fraction ``random`` is put at conductances uniform between the two: ``level``, uniforms in
    (0, 1] of the shape of ``g_s``, says where; without ``level`` there are none. ``uniform``, of
    the same kind, decides which cells are stuck; ``low + high + random`` is at most 1. The cells
    stuck low or high are the same whatever ``random`` is.
    """
    result = g_s
    if level is not None:
        result = np.where(uniform < low + random, g_min_s + level * (g_max_s - g_min_s), result)
    result = np.where(uniform < low, g_min_s, result)
    return np.where(uniform > 1.0 - high, g_max_s, result)
