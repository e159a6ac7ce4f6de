"""Flaws drawn once per chip: programming, levels, stuck cells, spread, offsets and gains."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping

import numpy as np

from eptsim.base.table import Table
from eptsim.testing.bench import DIRECTIONS, Array, Bench, matrix, numbers, read
from eptsim.testing.check import Check, Measured, both
from eptsim.testing.statistics import (
    correlation_is,
    distribution_is,
    fraction_is,
    mean_is,
    normal_is,
    variance_is,
)

OUT, IN = 60, 50
CELLS = OUT * IN
G_MIN_S, G_MAX_S = 1e-5, 3e-5
SPAN_S, MIDDLE_S = G_MAX_S - G_MIN_S, 0.5 * (G_MIN_S + G_MAX_S)
G = {"cell.g_min_s": G_MIN_S, "cell.g_max_s": G_MAX_S}
NORMAL = "the normal law, 5 standard errors"
BINOMIAL = "the binomial law, 5 standard errors"


def conductances(
    bench: Bench, w: float, changes: Mapping[str, object], seed: int = 0, time_s: float = 0.0
) -> Array:
    """Conductances (S) of cells aimed at the weight ``w``, one per weight, but for one weight of 1.

    In the mapping 'offset' a stored weight is one conductance; the weight of 1 sets the scale and
    is left out. As the forward read shows them at ``time_s``.
    """
    aim = np.full((OUT, IN), w)
    aim[0, 0] = 1.0
    array = bench.build(bench.tensor(aim), {**G, "array.mapping": "offset", **changes}, seed)
    stored = matrix(bench, array, "forward", time_s).ravel()[1:]
    return np.asarray(MIDDLE_S + 0.5 * SPAN_S * stored)


def _aim_s(w: float) -> float:
    return MIDDLE_S + 0.5 * SPAN_S * w


_LAWS: dict[str, tuple[Mapping[str, object], float]] = {
    "constant": ({"cell.programming.sigma": 0.02}, 0.02 * G_MAX_S),
    "polynomial": (
        {
            "cell.programming.sigma": 0.01, "cell.programming.sigma_linear": 0.03,
            "cell.programming.sigma_quadratic": -0.015,
        },
        G_MAX_S * (0.01 + 0.03 * (5 / 6) - 0.015 * (5 / 6) ** 2),
    ),
    "table": (
        {"cell.programming.table": Table((0.0, 4e-5), (0.0, 1.2e-6))},
        0.03 * 2.5e-5,
    ),
}  # fmt: skip
"""Law -> card entries, and the error (S) of a cell aimed at the weight 0.5 (5/6 of g_max)."""


def _programming(law: str) -> Check:
    def run(bench: Bench) -> Iterator[Measured]:
        changes, sigma_s = _LAWS[law]
        error = conductances(bench, 0.5, changes) - _aim_s(0.5)
        yield mean_is("error", error, 0.0, sigma_s)
        yield variance_is("error", error, sigma_s**2)
        yield normal_is("error", error / sigma_s)

    claim = f"Programming errors, {law}, have the card's standard deviation, cell by cell."
    return Check("flaws", f"programming-{law}", claim, NORMAL, run)


def _pair(bench: Bench) -> Iterator[Measured]:
    """The two cells of a pair err independently: twice the variance, in units of the span."""
    aim = np.full((OUT, IN), 0.5)
    aim[0, 0] = 1.0
    array = bench.build(bench.tensor(aim), {**G, "cell.programming.sigma": 0.02})
    error = matrix(bench, array, "forward").ravel()[1:] - 0.5
    yield mean_is("error", error, 0.0, math.sqrt(2.0) * 0.02 * G_MAX_S / SPAN_S)
    yield variance_is("error", error, 2.0 * (0.02 * G_MAX_S / SPAN_S) ** 2)


def _per_cell(bench: Bench) -> Iterator[Measured]:
    """As many conductances as cells, not as levels; other tiles and chips have others."""
    changes = {"cell.levels": 4, "cell.programming.sigma": 0.02}
    g_s = conductances(bench, 1.0 / 3.0, changes)
    same = g_s.size - np.unique(g_s).size
    yield Measured("cells that share a conductance", float(same), 0.01 * g_s.size)
    tiled = {**changes, "array.rows": 5, "array.columns": 6}
    errors = np.append(0.0, conductances(bench, 1.0 / 3.0, tiled) - _aim_s(1 / 3))
    cells = errors.reshape(OUT, IN)
    yield correlation_is("two tiles", cells[:6, 5:10], cells[6:12, 5:10])
    yield correlation_is("neighbours on a word line", cells[1:], cells[:-1])
    yield correlation_is("neighbours on a bit line", cells[:, 2:], cells[:, 1:-1])
    other = conductances(bench, 1.0 / 3.0, changes, seed=1)
    yield correlation_is("two seeds", g_s, other)


def _levels(bench: Bench) -> Iterator[Measured]:
    w = bench.weight(OUT, IN)
    for mapping, codes in (("differential", 6), ("offset", 3)):
        # seven levels: six steps a polarity of a pair, three each side of the middle else
        array = bench.build(w, {**G, "cell.levels": 7, "array.mapping": mapping})
        want = np.round(numbers(w) * codes) / codes
        place = numbers(w) * codes - 0.5
        clear = np.abs(place - np.round(place)) > 1e-3
        off = np.abs(matrix(bench, array, "forward") - want)[clear]
        yield Measured(f"{mapping}: distance from the level", float(off.max()), 64 * bench.eps)


def _slices(bench: Bench) -> Iterator[Measured]:
    """Two cells of 4 levels are one of 16."""
    w = bench.weight(OUT, IN)
    array = bench.build(w, {**G, "cell.levels": 4, "array.slices": 2})
    place = np.abs(numbers(w)) * 15 - 0.5
    clear = np.abs(place - np.round(place)) > 1e-3
    want = np.round(numbers(w) * 15) / 15
    for direction in DIRECTIONS:
        off = np.abs(matrix(bench, array, direction) - want)[clear]
        yield Measured(f"{direction}: distance from the value", float(off.max()), 64 * bench.eps)


def _verify(bench: Bench) -> Iterator[Measured]:
    changes = {
        "cell.programming.sigma": 0.05, "cell.programming.verify_tolerance": 0.03,
        "cell.programming.verify_rounds": 60,
    }  # fmt: skip
    error = np.abs(conductances(bench, 0.5, changes) - _aim_s(0.5)) / G_MAX_S
    # an attempt is inside with probability 0.45, so that 60 all fail once in 10^15
    yield Measured("largest error over g_max", float(error.max()), 0.03 + 16 * bench.eps)
    few = {**changes, "cell.programming.verify_rounds": 2}
    error = np.abs(conductances(bench, 0.5, few) - _aim_s(0.5)) / G_MAX_S
    outside = math.erfc(0.6 / math.sqrt(2)) ** 2
    yield fraction_is("outside after 2 rounds", int((error > 0.03).sum()), CELLS - 1, outside)


def _stuck(bench: Bench) -> Iterator[Measured]:
    low = conductances(bench, 0.5, {"cell.stuck.low": 0.1, "cell.stuck.high": 0.05})
    near = 1e-4 * G_MAX_S
    n = CELLS - 1
    yield fraction_is("at g_min", int((np.abs(low - G_MIN_S) < near).sum()), n, 0.1)
    yield fraction_is("at g_max", int((np.abs(low - G_MAX_S) < near).sum()), n, 0.05)
    left = np.abs(low - _aim_s(0.5)) < near
    yield fraction_is("where they were put", int(left.sum()), n, 0.85)
    some = conductances(bench, 0.5, {"cell.stuck.random": 0.3})
    moved = some[np.abs(some - _aim_s(0.5)) > near]
    yield fraction_is("stuck at random", moved.size, n, 0.3)
    yield distribution_is("where", (moved - G_MIN_S) / SPAN_S)


def _spread(bench: Bench, key: str) -> Iterator[Measured]:
    """A cell aimed at the end of the card's window gets what its own window allows.

    Half of the cells cannot reach it; they miss by |n| sigma: mean sigma / sqrt(2 pi) over all.
    """
    high = key == "g_max"
    g_s = conductances(bench, 1.0 if high else -1.0, {f"cell.spread.{key}": 0.05})
    missed = (G_MAX_S - g_s if high else g_s - G_MIN_S) / (0.05 * G_MAX_S)
    reached = int((np.abs(missed) < 1e-3).sum())
    # |n| < 1e-3 counts as reached
    yield fraction_is("reach the end", reached, CELLS - 1, 0.5 + 4e-4)
    yield mean_is("missed", missed, 1 / math.sqrt(2 * math.pi), math.sqrt(0.5 - 0.5 / math.pi))


def _clip(bench: Bench) -> Iterator[Measured]:
    w = bench.normal(OUT, IN)
    top = float(np.percentile(np.abs(numbers(w)), 90.0))
    array = bench.build(w, {"array.clip_percentile": 90.0})
    want = np.clip(numbers(w), -top, top)
    for direction in DIRECTIONS:
        off = np.abs(matrix(bench, array, direction) - want).max()
        yield Measured(f"{direction}: error", float(off), 64 * bench.eps * top)


def _zero_reads(
    bench: Bench,
    direction: str,
    changes: Mapping[str, object],
    seed: int = 0,
    *,
    size: float = 1.0,
    policy: str = "fixed",
) -> Array:
    """What 2000 lines of weights ``size`` show without drive, (2, lines), in two reads.

    The range of policy ``held`` is 5.
    """
    shape = (2000, 2) if direction == "forward" else (2, 2000)
    array = bench.build(bench.tensor(np.full(shape, size)), changes, seed)
    if policy == "held":
        array.hold_range(direction, 5.0)
    return numbers(read(array, direction, bench.tensor(np.zeros((2, 2))), policy=policy))


def _offset(bench: Bench, direction: str) -> Iterator[Measured]:
    other = "transpose" if direction == "forward" else "forward"
    changes = {f"{direction}.offset": 0.02}
    two = _zero_reads(bench, direction, changes)
    yield Measured("two reads apart", float(np.abs(two[0] - two[1]).max()), 0.0)
    offset = two[0]
    yield mean_is("offset", offset, 0.0, 0.02 * 12)
    yield variance_is("offset", offset, (0.02 * 12) ** 2)
    yield normal_is("offset", offset / 0.24)
    own = _zero_reads(bench, direction, changes, policy="per_vector")[0]
    yield Measured("nothing in, range per vector: not read at 1", float(np.abs(own - offset).max()),
                   8 * bench.eps)
    scaled = _zero_reads(bench, direction, changes, size=3.0, policy="held")[0]
    off = float(np.abs(scaled - 15.0 * offset).max())
    yield Measured("largest weight 3, held at 5: not 15 times that", off, 64 * bench.eps)
    size = "array.rows" if direction == "forward" else "array.columns"
    tiles = _zero_reads(bench, direction, {**changes, size: 1, f"{direction}.output_range": 3.0})
    yield variance_is("two tiles, full scale 3", tiles[0], 2 * (0.02 * 3) ** 2)
    yield Measured("other direction", float(np.abs(_zero_reads(bench, other, changes)).max()), 0.0)
    yield correlation_is("two seeds", offset, _zero_reads(bench, direction, changes, 1)[0])


def _gain(bench: Bench, direction: str) -> Iterator[Measured]:
    w = bench.tensor(np.ones((2000, 1) if direction == "forward" else (1, 2000)))
    array = bench.build(w, {f"{direction}.gain": 0.03})
    x = bench.tensor([[1.0], [1.0], [-0.5]])
    y = numbers(read(array, direction, x, policy="fixed"))
    yield Measured("two reads apart", float(np.abs(y[0] - y[1]).max()), 0.0)
    yield Measured("not linear", float(np.abs(y[2] + 0.5 * y[0]).max()), 8 * bench.eps)
    yield mean_is("gain", y[0], 1.0, 0.03)
    yield variance_is("gain", y[0], 0.03**2)


def _converters_of_their_own(bench: Bench) -> Iterator[Measured]:
    """A square array's two directions have offsets and gains that know nothing of each other."""
    n = 600
    changes = {f"{d}.{key}": 0.05 for d in DIRECTIONS for key in ("offset", "gain")}
    array = bench.build(bench.tensor(np.eye(n)), changes)
    zero = bench.tensor(np.zeros((1, n)))
    one = bench.tensor(np.ones((1, n)))
    offsets, gains = [], []
    for direction in DIRECTIONS:
        offsets.append(numbers(read(array, direction, zero, policy="fixed"))[0])
        gains.append(numbers(read(array, direction, one, policy="fixed"))[0] - offsets[-1])
    yield correlation_is("offsets", *offsets)
    yield correlation_is("gains", *gains)
    yield correlation_is("offsets and gains", offsets[0], gains[0])


def _named(name: str, claim: str, truth: str, run: Callable[[Bench], Iterable[Measured]]) -> Check:
    return Check("flaws", name, claim, truth, run)


CHECKS = (
    *(_programming(law) for law in _LAWS),
    _named("programming-pair", "The two cells of a pair err independently.", NORMAL, _pair),
    _named(
        "per-cell", "Variation is drawn per cell, not per level, tile or chip.",
        "number of distinct conductances", _per_cell,
    ),
    _named("levels", "A cell holds the nearest of its levels.", "rounding in float64", _levels),
    _named("slices", "Slices are digits of base levels.", "rounding in float64", _slices),
    _named("verify", "Verified cells lie within the tolerance.", "the card, binomial law", _verify),
    _named("stuck", "As many cells are stuck as the card says.", BINOMIAL, _stuck),
    *(
        Check(
            "flaws", f"spread-{key}", f"Cells have windows of their own: {key}.", NORMAL,
            lambda bench, key=key: _spread(bench, key),  # type: ignore[misc]
        )
        for key in ("g_min", "g_max")
    ),
    _named("clipped", "Weights beyond the percentile are clipped.", "NumPy's percentile", _clip),
    *both("flaws", "offset", "Offsets are frozen, normal, one per line and tile.", NORMAL, _offset),
    *both("flaws", "gain", "Gain errors are frozen, normal, one per line.", NORMAL, _gain),
    _named(
        "own-converters", "Offsets and gains of the two directions are unrelated.",
        "correlation 0, 5 standard errors", _converters_of_their_own,
    ),
)  # fmt: skip
