"""The slow wander of a converter's offset: an Ornstein-Uhlenbeck process, a pure function of time.

The process is Gaussian and Markov with the covariance exp(-|dt| / tau). Values 64 tau apart are
independent to 1 part in 10^28, so those on a grid of that period are drawn on their own. Between
two known values a and b a time L apart the value in the middle is Gaussian with

    mean (a + b) / (2 cosh(L / 2 tau)),   variance tanh(L / 2 tau)

whatever lies outside (Markov), so halving the interval around t again and again reaches any time,
and always by way of the same values. Each has an address: its period and its node in the tree of
halves.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from eptsim.base import philox
from eptsim.base.errors import InputError
from eptsim.base.streams import Stream

_GRID = 64.0  # correlation times per period
_LEVELS = 40  # the time is rounded down to 64 tau / 2^40 = 6e-11 tau
_LAST = 2**63  # periods counted: the spacing of float64 times is far above one by then
_MASK = 0xFFFFFFFF
_TAG = 0x77616E64  # "wand": apart from all other uses of the stream


def wander(
    stream: Stream, rows: int, lines: int, time_s: float, correlation_s: float
) -> npt.NDArray[np.float64]:
    """Independent Ornstein-Uhlenbeck processes at ``time_s`` (s), (rows, lines), float64.

    Mean 0, standard deviation 1 and covariance exp(-|dt| / ``correlation_s``); the values at any
    set of times are jointly Gaussian, and the same in whatever order they are asked for. The time
    is rounded down to a multiple of 6e-11 ``correlation_s`` (and to float64): two reads within one
    such step, in which the process moves by 1e-5 of its standard deviation, give the same bits.

    Raises
    ------
    InputError
        For a time that is negative or not finite, or a correlation time that is not above 0 and
        at most 1e300 s.
    """
    if not 0.0 <= time_s < math.inf:
        raise InputError(f"wander time: found {time_s!r} s, allowed: 0 s or more.")
    if not 0.0 < correlation_s <= 1e300:
        raise InputError(
            f"correlation time: found {correlation_s!r} s, allowed: above 0 s, at most 1e300 s."
        )
    period, position = _place(time_s, correlation_s)
    left = _normal(stream, rows, lines, period, 0)
    if position == 0:
        return left
    right = _normal(stream, rows, lines, period + 1, 0)
    node, half = 1, 0.5 * _GRID  # half the interval, in correlation times
    lowest = (position & -position).bit_length() - 1  # there the middle is the time itself
    for level in range(_LEVELS - 1, lowest - 1, -1):
        middle = (left + right) * (0.5 / math.cosh(half))
        middle += math.sqrt(math.tanh(half)) * _normal(stream, rows, lines, period, node)
        if position >> level & 1:
            left, node = middle, 2 * node + 1
        else:
            right, node = middle, 2 * node
        half *= 0.5
    return left


def _place(time_s: float, correlation_s: float) -> tuple[int, int]:
    """Period of ``time_s``, and its position therein in steps of 2^-40 periods."""
    period_s = _GRID * correlation_s
    if time_s / period_s >= _LAST:
        return _LAST, 0
    rest_s = math.fmod(time_s, period_s)  # exact, so a late time loses nothing but its own ulp
    position = int(rest_s / period_s * 2.0**_LEVELS)
    return round((time_s - rest_s) / period_s), min(position, 2**_LEVELS - 1)


def _normal(
    stream: Stream, rows: int, lines: int, period: int, node: int
) -> npt.NDArray[np.float64]:
    # a key per period, since the two words of the counter that are left hold the node
    words = philox.philox(
        np.uint32(period & _MASK),
        np.uint32(period >> 32),
        np.uint32(0),
        np.uint32(_TAG),
        np.uint32(stream.key0),
        np.uint32(stream.key1),
    )
    own = Stream(int(words[0]), int(words[1]))
    return own.normal(rows, lines, read=node & _MASK, plane=node >> 32).astype(np.float64)
