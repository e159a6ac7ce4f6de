"""Both directions see the same conductances: <W x, d> = <x, W^T d> on flawed arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from eptsim.base.table import Table
from eptsim.crossbar.stages import Position
from eptsim.testing.bench import (
    DIRECTIONS,
    MAPPINGS,
    Bench,
    drives,
    matrix,
    numbers,
    product,
    read,
)
from eptsim.testing.check import Check, Measured

#: When both directions are read: late enough for what moves to have moved.
TIME_S = 2.5
TILES = {"array.rows": 7, "array.columns": 5}
G = {"cell.g_min_s": 1e-6, "cell.g_max_s": 2e-5}
#: Flaws of cells and wires alone: no converters, nothing that moves or is drawn at a read.
FLAWS: dict[str, Mapping[str, object]] = {
    "none": {},
    "levels": {"cell.levels": 5},
    "slices": {"cell.levels": 4, "array.slices": 3},
    "clipped": {"array.clip_percentile": 80.0},
    "programming": {"cell.programming.sigma": 0.05},
    "programming-table": {"cell.programming.table": Table((0.0, 1e-3), (5e-7, 5e-7))},
    "verify": {"cell.programming.sigma": 0.1, "cell.programming.verify_tolerance": 0.05},
    "spread": {"cell.spread.g_min": 0.05, "cell.spread.g_max": 0.1},
    "drift": {"cell.drift.nu": 0.05, "cell.drift.nu_sigma": 0.02},
    "retention": {"cell.retention.tau_s": 1e4},
    "stuck": {"cell.stuck.low": 0.1, "cell.stuck.high": 0.1, "cell.stuck.random": 0.1},
    "wires": {"array.wire_word_ohm": 50.0, "array.wire_bit_ohm": 30.0},
    "terminals": {"array.driver_ohm": 500.0, "array.sense_ohm": 300.0},
    "flicker": {"cell.flicker.sigma": 0.02},
}
ALL: dict[str, object] = {
    "cell.levels": 17, "cell.programming.sigma": 0.03, "cell.spread.g_max": 0.05,
    "cell.drift.nu": 0.05, "cell.drift.nu_sigma": 0.02, "cell.stuck.low": 0.02,
    "cell.stuck.high": 0.02, "array.wire_word_ohm": 5.0, "array.wire_bit_ohm": 5.0,
}  # fmt: skip
#: And all that belongs to one direction, or to one read, small enough for a read to be a read.
EVERYTHING: dict[str, object] = {
    "cell.levels": 33, "cell.programming.sigma": 0.01, "cell.read_noise.law": "proportional",
    "cell.read_noise.sigma": 0.02, "cell.stuck.low": 0.01, "cell.stuck.high": 0.01,
    "cell.drift.nu": 0.02, "array.wire_word_ohm": 1.0, "array.wire_bit_ohm": 1.0,
} | {
    f"{direction}.{key}": value
    for direction, full in (("forward", 4.0), ("transpose", 3.0))
    for key, value in {
        "dac_bits": 7, "adc_bits": 9, "output_range": full, "offset": 0.005, "gain": 0.02,
        "line_noise": 0.005,
    }.items()
}  # fmt: skip


def _measure(bench: Bench, changes: Mapping[str, object]) -> Iterator[Measured]:
    """The inner products, and every entry of the two matrices."""
    for shape in ((9, 16), (16, 9), (12, 12)):
        array = bench.build(bench.weight(*shape), {**G, **TILES, **changes}, seed=4)
        x, d = bench.normal(1, shape[1], seed=1), bench.normal(1, shape[0], seed=2)
        at = Position(0, 0, TIME_S)
        y = numbers(read(array, "forward", x, position=at))
        z = numbers(read(array, "transpose", d, position=at))
        one, other = float((y * numbers(d)).sum()), float((z * numbers(x)).sum())
        size = float(np.linalg.norm(y) * np.linalg.norm(numbers(d)))
        yield Measured(f"{shape}: <Wx, d> - <x, W^T d>", abs(one - other), 64 * bench.eps * size)
        forward, transpose = (matrix(bench, array, name, TIME_S) for name in DIRECTIONS)
        off = float(np.abs(forward - transpose).max())
        yield Measured(f"{shape}: entries of the two matrices", off, 32 * bench.eps)


def _flaw(name: str) -> Check:
    def run(bench: Bench) -> Iterator[Measured]:
        return _measure(bench, FLAWS[name])

    claim = f"With the flaw '{name}', on several tiles, both directions see one matrix."
    return Check("adjointness", name, claim, "the other direction", run)


def _mapping(name: str) -> Check:
    def run(bench: Bench) -> Iterator[Measured]:
        return _measure(bench, {**ALL, "array.mapping": name})

    claim = f"With all flaws of cells and wires, mapping '{name}', they still do."
    return Check("adjointness", f"all-{name}", claim, "the other direction", run)


def _everything(bench: Bench) -> Iterator[Measured]:
    """Every flaw on: a read that goes the wrong way is off by its own size."""
    for shape in ((9, 16), (16, 9), (14, 14)):
        w = bench.weight(*shape)
        array = bench.build(w, {**G, **TILES, **EVERYTHING}, seed=4)
        for direction in DIRECTIONS:
            x = bench.codes(40, drives(shape, direction), seed=3)
            want = product(numbers(w), direction, numbers(x))
            got = numbers(read(array, direction, x))
            off = float(np.linalg.norm(got - want) / np.linalg.norm(want))
            yield Measured(f"{shape} {direction}: relative error", off, 0.5)


CHECKS = (
    *(_flaw(name) for name in FLAWS),
    *(_mapping(name) for name in MAPPINGS),
    Check(
        "adjointness", "every-flaw",
        "With every flaw on, non-square and square, the reads are W x and W^T d, not each other's.",
        "the product in float64", _everything,
    ),
)  # fmt: skip
