"""Noise drawn anew at every read: its laws, its independence, its mean."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import pairwise

import numpy as np

from eptsim.base.table import Table
from eptsim.crossbar.interface import CrossbarLike
from eptsim.testing.bench import DIRECTIONS, Array, Bench, drives, numbers, product, read
from eptsim.testing.check import Check, Measured, both, count
from eptsim.testing.statistics import correlation_is, mean_is, normal_is, variance_is

READS = 20_000
OUT, IN = 5, 7
G_MIN_S, G_MAX_S = 1e-6, 2.1e-5
SPAN_S, SIGMA = G_MAX_S - G_MIN_S, 0.05
CURVE = Table((0.0, G_MAX_S), (1e-7, 8e-7))
NORMAL = "the normal law, 5 standard errors"
TILES = {"array.rows": 4, "array.columns": 3}


def _vector(bench: Bench, direction: str) -> Array:
    """A drive (1, drives) whose largest magnitude is 1."""
    return numbers(bench.weight(1, drives((OUT, IN), direction), seed=8))


def _errors(bench: Bench, array: CrossbarLike, direction: str, reads: int = READS) -> Array:
    """Reads of one vector less the exact result, (reads, lines); the largest weight is 1."""
    x = _vector(bench, direction)
    w = numbers(bench.weight(OUT, IN))
    rows = bench.tensor(np.repeat(x, reads, axis=0))
    return numbers(read(array, direction, rows)) - product(w, direction, x)


def _line(bench: Bench, direction: str) -> Iterator[Measured]:
    for full in (12.0, 30.0):
        changes: dict[str, object] = {f"{direction}.line_noise": 0.01}
        if full != 12.0:
            changes[f"{direction}.output_range"] = full
        found = _errors(bench, bench.build(bench.weight(OUT, IN), changes), direction)
        sigma = 0.01 * full
        yield mean_is(f"full scale {full}", found, 0.0, sigma)
        yield variance_is(f"full scale {full}", found, sigma**2)
        yield normal_is(f"full scale {full}", found / sigma)


def _line_scale(bench: Bench, direction: str) -> Iterator[Measured]:
    """Its size follows the largest weight, the range, and the number of partial sums."""
    changes = {**TILES, f"{direction}.line_noise": 0.01}
    array = bench.build(3.0 * bench.weight(OUT, IN), changes)
    array.hold_range(direction, 5.0)
    inner = drives((OUT, IN), direction)
    x = bench.tensor(np.zeros((READS, inner)))
    found = numbers(read(array, direction, x, policy="held"))
    sigma = 0.12 * 3.0 * 5.0 * math.sqrt(2)  # two tiles
    yield mean_is("two tiles", found, 0.0, sigma)
    yield variance_is("two tiles", found, sigma**2)


def _cell_sigma_s(g_s: Array, law: str) -> Array:
    if law == "constant":
        return np.full_like(g_s, SIGMA * G_MAX_S)
    if law == "proportional":
        return SIGMA * g_s
    if law == "sqrt":
        return np.asarray(SIGMA * np.sqrt(g_s * G_MAX_S))
    return np.interp(g_s, CURVE.x, CURVE.y)


def _cell_card(law: str, mapping: str) -> dict[str, object]:
    card: dict[str, object] = {
        "cell.g_min_s": G_MIN_S, "cell.g_max_s": G_MAX_S, "cell.read_noise.law": law,
        "array.mapping": mapping,
    }  # fmt: skip
    return card | (
        {"cell.read_noise.table": CURVE} if law == "table" else {"cell.read_noise.sigma": SIGMA}
    )


def _cells(law: str, mapping: str) -> Check:
    """Variance of a line: the sum over its cells of (drive x sigma)^2; none without drive."""

    def run(bench: Bench) -> Iterator[Measured]:
        w = bench.weight(OUT, IN)
        array = bench.build(w, _cell_card(law, mapping))
        if mapping == "differential":
            parts = [G_MIN_S + SPAN_S * np.maximum(s * numbers(w), 0.0) for s in (1, -1)]
            per_s = 1.0 / SPAN_S
        else:
            parts = [0.5 * (G_MIN_S + G_MAX_S) + 0.5 * SPAN_S * numbers(w)]
            per_s = 2.0 / SPAN_S
        cells = np.sum([(_cell_sigma_s(g, law) * per_s) ** 2 for g in parts], axis=0)
        middle = float(_cell_sigma_s(np.array([0.5 * (G_MIN_S + G_MAX_S)]), law)[0] * per_s) ** 2
        for direction in DIRECTIONS:
            x = _vector(bench, direction)
            want = product(cells, direction, x**2)[0]
            if mapping == "reference_column":
                sums = (x**2).sum() if direction == "forward" else x.sum() ** 2
                want = want + middle * sums
            found = _errors(bench, array, direction)
            yield mean_is(direction, found, 0.0, np.sqrt(want))
            yield variance_is(direction, found, want)
            silent = read(array, direction, bench.tensor(np.zeros((50, x.shape[1]))))
            yield Measured(f"{direction}: without drive", float(silent.abs().max()), 0.0)

    claim = f"Cells with noise law '{law}', mapping '{mapping}', add up as independent ones."
    return Check(
        "noise", f"cells-{law}-{mapping}", claim, "sum of u^2 sigma^2, 5 standard errors", run
    )


def _shared_reference(bench: Bench) -> Iterator[Measured]:
    """Forward, the noise of a reference column is common to the outputs of its tile only."""
    card = {**_cell_card("constant", "reference_column"), "array.columns": 3}
    found = _errors(bench, bench.build(bench.weight(OUT, IN), card), "forward")
    yield correlation_is("one tile", found[:, 0], found[:, 1], 0.5)
    yield correlation_is("two tiles", found[:, 0], found[:, 3])


def _independent(bench: Bench) -> Iterator[Measured]:
    changes = {f"{direction}.line_noise": 0.01 for direction in DIRECTIONS}
    w = bench.weight(OUT, IN)
    array = bench.build(w, changes, 1)
    base = _errors(bench, array, "forward")
    yield correlation_is("this read and the next", base[:-1], base[1:])
    yield correlation_is("a line and its neighbour", base[:, :-1], base[:, 1:])
    yield correlation_is("earlier and later reads", base, _errors(bench, array, "forward"))
    transpose = _errors(bench, array, "transpose")[:, :OUT]
    yield correlation_is("forward and transposed", base, transpose)
    other = _errors(bench, bench.build(w, changes, 2), "forward")
    yield correlation_is("two seeds", base, other)


def _independent_tiles(bench: Bench, direction: str) -> Iterator[Measured]:
    """Two tiles with the same weights, driven against each other, show twice the variance."""
    size = "array.rows" if direction == "forward" else "array.columns"
    changes: dict[str, object] = {size: 1, f"{direction}.line_noise": 0.01}
    shape = (3, 2) if direction == "forward" else (2, 3)
    array = bench.build(bench.tensor(np.ones(shape)), changes)
    x = bench.tensor(np.repeat([[1.0, -1.0]], READS, axis=0))
    found = numbers(read(array, direction, x))
    yield variance_is("difference of two tiles", found, 2 * 0.12**2)


def _million(bench: Bench) -> Iterator[Measured]:
    """A table of normals that is used again would bias the mean and show at a lag."""
    w = bench.tensor([[1.0], [0.5], [-0.25], [0.0]])
    n = 250_000
    array = bench.build(w, {"forward.line_noise": 0.01})
    parts = [read(array, "forward", bench.tensor(np.ones((n // 10, 1)))) for _ in range(10)]
    y = np.concatenate([numbers(part) for part in parts]) - numbers(w)[:, 0]
    error = 0.12 / math.sqrt(y.size)
    yield Measured("mean of all, standard errors off", abs(float(y.mean())) / error, 4.0)
    yield mean_is("each line", y, 0.0, 0.12)
    yield variance_is("each line", y, 0.12**2)
    for lag in (1, 4, 16, 4096, 8192, 16384, 32768, 65536):
        yield correlation_is(f"{lag} reads apart", y[lag:, 0], y[:-lag, 0])
    top = float(np.abs(y).max()) / 0.12
    yield count(f"no tails: the largest of 10^6 is {top:.2f} sigma", top < 4.2)
    yield count("equal draws next to each other", any((a == b).all() for a, b in pairwise(y[:200])))


def _before_gain(bench: Bench, direction: str) -> Iterator[Measured]:
    """Line noise passes the line's gain; the offset does not."""
    changes: Mapping[str, object] = {
        f"{direction}.line_noise": 0.01, f"{direction}.gain": 0.3, f"{direction}.offset": 0.02
    }
    w = bench.tensor(np.ones((40, 1) if direction == "forward" else (1, 40)))
    array = bench.build(w, changes)
    zero, one = (
        numbers(read(array, direction, bench.tensor(np.full((READS, 1), x)), policy="fixed"))
        for x in (0.0, 1.0)
    )
    gain = one.mean(axis=0) - zero.mean(axis=0)
    slack = 0.05  # the gain is itself measured, to 0.12 sqrt(2 / READS) = 1.2e-3
    yield variance_is("noise over the gain", zero / gain, 0.12**2, slack=slack)


CHECKS = (
    *both("noise", "line", "Line noise is normal, a fraction of the full scale.", NORMAL, _line),
    *both(
        "noise", "line-scale", "It follows the largest weight, the range and the tiles.", NORMAL,
        _line_scale,
    ),
    *(
        _cells(law, mapping)
        for law in ("constant", "proportional", "sqrt", "table")
        for mapping in ("differential", "reference_column", "offset")
    ),
    Check(
        "noise", "reference-column", "A reference column's noise is common to its tile's outputs.",
        "correlation 1/2, 5 standard errors", _shared_reference,
    ),
    Check(
        "noise", "independent", "Reads, lines, directions and seeds draw independently.",
        "correlation 0, 5 standard errors", _independent,
    ),
    *both(
        "noise", "independent-tiles", "Tiles draw independently.", NORMAL, _independent_tiles
    ),
    *both(
        "noise", "before-gain", "Line noise enters before the line's gain error.", NORMAL,
        _before_gain,
    ),
    Check(
        "noise", "million", "The mean of 10^6 draws is within 4 standard errors, and none recur.",
        NORMAL, _million, slow=True,
    ),
)  # fmt: skip
