"""An ideal card reads exactly, in both directions, whatever the shape and the digital mapping."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from eptsim.testing.bench import (
    DIRECTIONS,
    MAPPINGS,
    Bench,
    drives,
    matrix,
    numbers,
    product,
    read,
    rounding,
)
from eptsim.testing.check import Check, Measured, both, count

SHAPES = ((1, 1), (1, 7), (5, 1), (5, 3), (3, 7), (17, 33), (48, 64), (20, 600))
TILES = {"array.rows": 7, "array.columns": 5}
TRUTH = "the product in float64"


def _error(
    bench: Bench,
    changes: Mapping[str, object],
    shape: tuple[int, int],
    direction: str,
    size: float = 1.0,
) -> Measured:
    """Largest error of a read over what rounding may make, for one shape."""
    w = size * bench.normal(*shape)
    x = bench.normal(6, drives(shape, direction), seed=1)
    got = numbers(read(bench.build(w, changes), direction, x))
    want = product(numbers(w), direction, numbers(x))
    limit = rounding(bench, numbers(w), direction, numbers(x))
    return Measured(f"{shape}: largest error", float(np.abs(got - want).max()), limit)


def _shapes(bench: Bench, direction: str) -> Iterator[Measured]:
    for shape in SHAPES:
        yield _error(bench, {}, shape, direction)


def _tiles(bench: Bench, direction: str) -> Iterator[Measured]:
    for shape in SHAPES:
        yield _error(bench, TILES, shape, direction)


def _sizes(bench: Bench, direction: str) -> Iterator[Measured]:
    for size in (1e-12, 1e-3, 1e6, 1e12):
        yield _error(bench, {}, (9, 14), direction, size)


def _leading(bench: Bench, direction: str) -> Iterator[Measured]:
    """One vector, a batch of batches and none at all."""
    w = bench.weight(6, 9)
    array = bench.build(w)
    inner, lines = drives(w.shape, direction), 15 - drives(w.shape, direction)
    x = bench.normal(2 * 3, inner, seed=1)
    flat = read(array, direction, x)
    shaped = read(array, direction, x.reshape(2, 3, inner))
    one = read(array, direction, x[0])
    none = read(array, direction, x[:0])
    yield count("(2, 3, drives): wrong shape", shaped.shape != (2, 3, lines))
    yield count("(drives,): wrong shape", one.shape != (lines,))
    yield count("(0, drives): wrong shape", none.shape != (0, lines))
    yield count("other dtype or device", shaped.dtype != w.dtype or shaped.device != w.device)
    yield count("other values than as rows", not shaped.reshape(6, lines).equal(flat))
    yield count("other values than in a batch", not one.equal(flat[0]))


def _zero(bench: Bench, direction: str) -> Iterator[Measured]:
    array = bench.build(bench.weight(6, 9))
    x = bench.tensor(np.zeros((3, drives(array.shape, direction))))
    yield Measured("zero input: output", float(read(array, direction, x).abs().max()), 0.0)
    nothing = bench.build(bench.tensor(np.zeros((6, 9))))
    x = bench.normal(3, drives(nothing.shape, direction))
    yield Measured("zero weight: output", float(read(nothing, direction, x).abs().max()), 0.0)


def _untouched(bench: Bench) -> Iterator[Measured]:
    w, x = bench.weight(6, 9), bench.normal(4, 9)
    before, given = w.clone(), x.clone()
    array = bench.build(w)
    first = array.read(x)
    yield count("the weight given was changed", not w.equal(before))
    yield count("the input given was changed", not x.equal(given))
    w.zero_()
    first_kept = first.clone()
    yield count("follows later changes of the weight", not array.read(x).equal(first_kept))
    x.zero_()
    yield count("the result follows the input", not first.equal(first_kept))


def _weight(bench: Bench) -> Iterator[Measured]:
    """The method ``weight`` of the interface against what unit vectors show."""
    w = bench.normal(11, 8)
    for changes in ({}, TILES):
        array = bench.build(w, changes)
        for direction in DIRECTIONS:
            off = np.abs(matrix(bench, array, direction) - numbers(array.weight())).max()
            limit = 32 * bench.eps * float(w.abs().max())
            yield Measured(f"{direction}: read of unit vectors", float(off), limit)
        copy = array.weight()
        copy.zero_()
        yield count("weight() is no copy", bool(array.weight().abs().max() == 0))


def _mapping(name: str) -> Check:
    def run(bench: Bench) -> Iterator[Measured]:
        for direction in DIRECTIONS:
            for shape in ((5, 3), (17, 33)):
                changes = {**TILES, "array.mapping": name, "cell.g_min_s": 1e-6}
                yield _error(bench, changes, shape, direction)

    claim = f"Perfect cells in the mapping '{name}' read exactly."
    return Check("exactness", f"mapping-{name}", claim, TRUTH, run)


def _scaling(name: str) -> Check:
    def run(bench: Bench) -> Iterator[Measured]:
        spread = np.exp(2.0 * numbers(bench.normal(17, 33, seed=5)))
        w = bench.tensor(spread * numbers(bench.normal(17, 33)))
        for direction in DIRECTIONS:
            array = bench.build(w, {**TILES, "array.scaling": name})
            x = bench.normal(6, drives(w.shape, direction), seed=1)
            want = product(numbers(w), direction, numbers(x))
            off = float(np.abs(numbers(read(array, direction, x)) - want).max())
            limit = rounding(bench, numbers(w), direction, numbers(x))
            yield Measured(f"{direction}: largest error", off, limit)

    claim = f"Weights of any spread, scaled by '{name}', read exactly from perfect cells."
    return Check("exactness", f"scaling-{name}", claim, TRUTH, run)


CHECKS = (
    *both(
        "exactness", "shapes", "The ideal card reads exactly, for any shape.", TRUTH, _shapes
    ),
    *both(
        "exactness", "tiles", "Spread over tiles, it still does.", TRUTH, _tiles
    ),
    *both(
        "exactness", "sizes", "For weights of any size, it still does.", TRUTH, _sizes
    ),
    *both(
        "exactness", "leading-dimensions",
        "Leading dimensions of the input are those of the output, also none or an empty one.",
        "the same rows read as a batch", _leading,
    ),
    *both("exactness", "zero", "Nothing in, or nothing stored, is nothing out.", "0", _zero),
    Check(
        "exactness", "copies", "Weight and input are neither changed nor kept.", "copies of both",
        _untouched,
    ),
    Check(
        "exactness", "weight", "weight() is what the reads multiply by; a copy.",
        "reads of unit vectors", _weight,
    ),
    *(_mapping(name) for name in MAPPINGS),
    *(_scaling(name) for name in ("array", "tile", "column")),
)  # fmt: skip
