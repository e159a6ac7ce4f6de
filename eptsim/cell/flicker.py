"""1/f noise: slow fluctuations of a cell, a pure function of time.

A 1/f spectrum is a sum of fluctuators whose periods are spaced evenly in the logarithm. Fluctuator
m of period tau draws one standard normal N(n) per cell and whole period n. In between it goes from
one to the next at constant variance,

    x_m(t) = sqrt(1 - w) N(n) + sqrt(w) N(n + 1),   n + w = t / tau + phase,

so any time can be asked for in any order. The phase is one per row and fluctuator: without it all
fluctuators of all cells would start a period at t = 0, and the first reads would tell.

Its correlation at the lag h tau, averaged over the phase, is (pi / 8) (2 - h)^2 for 1 <= h <= 2 and
0 beyond; near 0 it falls from 1 about as h^2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numba as nb
import numpy as np
import numpy.typing as npt

from eptsim.base import philox
from eptsim.base.errors import InputError
from eptsim.base.streams import Stream

F32 = np.float32
F64 = np.float64
U32 = np.uint32
U64 = np.uint64

_RATIO = 4.0  # largest quotient of two neighbouring periods: the ripple is below 0.08 e-folds
# integral over ln h of (1 - correlation at lag h) less a step at h = 1: where the sum takes off
_DELAY = 0.2819561
_WORD = U64(32)
_UNIT = 2.0**-32
_LAST = 2.0**62  # periods counted; beyond it (and beyond what a float64 of time tells) none pass
_PHASE, _KEY = U32(0x70686173), U32(0x666C6963)  # "phas", "flic": apart from all read numbers


@dataclass(frozen=True, slots=True)
class Mode:
    """One fluctuator.

    Attributes
    ----------
    period_s : float
        Time (s) between two independent values.
    variance : float
        Its share of the variance of the sum.
    """

    period_s: float
    variance: float


def modes(fastest_s: float, slowest_s: float) -> tuple[Mode, ...]:
    """Fluctuators whose sum has a 1/f spectrum between the periods ``fastest_s`` and ``slowest_s``.

    Each e-fold of periods has the variance 1, so all have ln(slowest_s / fastest_s). Two reads a
    time dt apart differ, in the mean square, by D(dt) = 2 ln(dt / fastest_s): to within 0.16 (and
    0 on average over dt) for 3 fastest_s < dt < slowest_s / 3. Below, D grows about as dt^2;
    beyond slowest_s it levels off at 2 ln(slowest_s / fastest_s). In the one-sided spectrum
    f S(f) = 1 to within 0.15 for 0.1 / slowest_s < f < 0.02 / fastest_s. The periods are at most a
    factor of 4 apart. No fluctuators for equal periods.

    Raises
    ------
    InputError
        For periods that are not finite and above 0, or a slowest one below the fastest.
    """
    if not 0.0 < fastest_s <= slowest_s < math.inf:
        raise InputError(
            f"flicker periods: found {fastest_s!r} s to {slowest_s!r} s, allowed: above 0 s, the "
            "slowest not below the fastest."
        )
    span = math.log(slowest_s) - math.log(fastest_s)
    number = math.ceil(span / math.log(_RATIO))
    step = span / max(number, 1)
    first = math.log(fastest_s) + _DELAY + 0.5 * step
    periods_s = (math.exp(min(first + m * step, 709.0)) for m in range(number))
    return tuple(Mode(period_s, step) for period_s in periods_s)


def fluctuation(
    stream: Stream,
    rows: int,
    lines: int,
    time_s: float,
    modes: tuple[Mode, ...],
    plane: int = 0,
    *,
    first_row: int = 0,
) -> npt.NDArray[np.float32]:
    """Sum of the fluctuators ``modes`` of each cell at ``time_s`` (s), (rows, lines), float32.

    Gaussian with mean 0 and the variance of :func:`modes`, independent from cell to cell; times
    sigma it is the relative change of a conductance. It depends on nothing but the arguments: two
    reads at one time share every bit. Row r has the address first_row + r; ``plane`` tells the
    devices of one array apart. Time resolution is that of float64: a fluctuator whose period is
    below the spacing of the floats around ``time_s`` has one value per float.

    Raises
    ------
    InputError
        For a time that is negative or not finite.
    """
    if not 0.0 <= time_s < math.inf:
        raise InputError(f"flicker time: found {time_s!r} s, allowed: 0 s or more.")
    out = np.zeros((rows, lines), np.float32)
    if out.size and modes:
        with np.errstate(over="ignore"):
            ages = np.minimum(time_s / np.array([mode.period_s for mode in modes]), _LAST)
        sizes = np.sqrt(np.array([mode.variance for mode in modes]))
        _add_modes(
            out, first_row, ages, sizes, U32(plane & 0xFFFFFFFF), U32(stream.key0), U32(stream.key1)
        )
    return out


@nb.njit(error_model="numpy", nogil=True, cache=True)
def _add_normals(out, size, row, mode, period, plane, k0, k1, normals):  # type: ignore[no-untyped-def]
    # a key per mode and 2^32 periods, since the counter has one word left for the period
    key = philox.philox(U32(period >> _WORD), U32(mode), plane, _KEY, k0, k1)
    philox.fill_rows(normals, row, U32(period), plane, key[0], key[1])
    for j in range(out.shape[0]):
        out[j] += size * normals[0, j]


@nb.njit(error_model="numpy", parallel=True, cache=True)
def _add_modes(out, first_row, ages, sizes, plane, k0, k1):  # type: ignore[no-untyped-def]
    rows, lines = out.shape
    n = (lines + 3) // 4
    for chunk in nb.prange((rows + 15) // 16):
        normals = np.empty((1, 4 * n), np.float32)
        for r in range(chunk * 16, min(rows, chunk * 16 + 16)):
            row = first_row + r
            for m in range(ages.shape[0]):
                word = philox.philox(U32(m), U32(row), plane, _PHASE, k0, k1)[0]
                age = ages[m] + F64(word) * _UNIT
                period = U64(age)
                part = age - F64(period)
                before = F32(sizes[m] * np.sqrt(1.0 - part))
                after = F32(sizes[m] * np.sqrt(part))
                _add_normals(out[r], before, row, m, period, plane, k0, k1, normals)
                if part > 0.0:
                    _add_normals(out[r], after, row, m, period + U64(1), plane, k0, k1, normals)
