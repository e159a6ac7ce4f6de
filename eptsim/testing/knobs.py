"""Every entry of a card: set to something else, it alone changes a read, or is refused.

An entry of one direction changes that direction and leaves the other one's bits alone; an entry of
the cells changes both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

import numpy as np

from eptsim.base.table import Table
from eptsim.cards.spec import Value
from eptsim.crossbar.interface import CrossbarLike
from eptsim.crossbar.stages import Position
from eptsim.testing.bench import DIRECTIONS, Bench, numbers, read
from eptsim.testing.check import Check, Measured, count

Probe: TypeAlias = tuple[Value, Mapping[str, Value]]

#: Smallest change, over the largest output, that is no rounding.
SMALLEST = 1e-4

_NOISE: dict[str, Value] = {"cell.read_noise.law": "constant", "cell.read_noise.sigma": 0.1}
_DRIFT: dict[str, Value] = {"cell.drift.nu": 0.05}
_SIGMA: dict[str, Value] = {"cell.programming.sigma": 0.1}
_VERIFY: dict[str, Value] = {**_SIGMA, "cell.programming.verify_tolerance": 0.02}
_FLICKER: dict[str, Value] = {"cell.flicker.sigma": 0.1}
_RETENTION: dict[str, Value] = {"cell.retention.tau_s": 1e4}
_WIRES: dict[str, Value] = {"array.wire_word_ohm": 500.0, "array.wire_bit_ohm": 500.0}
_BENT: dict[str, Value] = {"cell.iv.law": "sinh", "cell.iv.v0_v": 0.1, "array.coding": "amplitude"}
_CURVE, _FLAT = Table((0.0, 1e-5), (1e-7, 3e-7)), Table((0.0, 1e-5), (1e-7, 1e-7))
_CURVED: dict[str, Value] = {
    "cell.iv.law": "table", "array.coding": "amplitude",
    "cell.iv.table": Table((0.0, 0.1, 0.2), (0.0, 0.1, 0.3)),
}  # fmt: skip

PROBES: dict[str, Probe] = {
    "cell.g_min_s": (1e-6, _NOISE),
    "cell.g_max_s": (2e-5, {**_NOISE, "cell.g_min_s": 1e-6}),
    "cell.levels": (4, {}),
    "cell.spread.g_min": (0.1, {}),
    "cell.spread.g_max": (0.1, {}),
    "cell.programming.sigma": (0.1, {}),
    "cell.programming.sigma_linear": (0.1, {}),
    "cell.programming.sigma_quadratic": (0.1, {}),
    "cell.programming.table": (_CURVE, {}),
    "cell.programming.verify_tolerance": (0.05, _SIGMA),
    "cell.programming.verify_rounds": (2, _VERIFY),
    "cell.read_noise.law": ("proportional", _NOISE),
    "cell.read_noise.sigma": (0.2, _NOISE),
    "cell.read_noise.table": (
        _CURVE, {"cell.read_noise.law": "table", "cell.read_noise.table": _FLAT}
    ),
    "cell.flicker.sigma": (0.1, {}),
    "cell.flicker.fastest_s": (1e-3, _FLICKER),
    "cell.flicker.slowest_s": (1e-2, _FLICKER),
    "cell.drift.nu": (0.1, _DRIFT),
    "cell.drift.nu_sigma": (0.1, _DRIFT),
    "cell.drift.time_s": (7200.0, _DRIFT),
    "cell.drift.t0_s": (10.0, _DRIFT),
    "cell.drift.compensation": ("reference_read", _DRIFT),
    "cell.retention.tau_s": (1e4, {}),
    "cell.retention.stretch": (0.5, _RETENTION),
    "cell.retention.level": (0.5, {**_RETENTION, "array.mapping": "offset"}),
    "cell.stuck.low": (0.3, {}),
    "cell.stuck.high": (0.3, {}),
    "cell.stuck.random": (0.3, {}),
    "cell.iv.law": ("cubic", _BENT),
    "cell.iv.v0_v": (0.3, _BENT),
    "cell.iv.table": (Table((0.0, 1.0), (0.0, 2.0)), _CURVED),
    "array.rows": (3, {"forward.adc_bits": 6, "forward.output_range": 4.0}),
    "array.columns": (3, {"transpose.adc_bits": 6, "transpose.output_range": 4.0}),
    "array.mapping": ("offset", {"cell.levels": 4}),
    "array.scaling": ("column", {"cell.levels": 4}),
    "array.clip_percentile": (90.0, {}),
    "array.slices": (2, {"cell.levels": 4}),
    "array.wire_word_ohm": (100.0, {}),
    "array.wire_bit_ohm": (100.0, {}),
    "array.driver_ohm": (300.0, {}),
    "array.sense_ohm": (300.0, {}),
    "array.wire_model": ("ladder", _WIRES),
    "array.coding": ("pulse_width", _BENT),
    "array.read_voltage_v": (1.0, _BENT),
}  # fmt: skip
"""Entry -> another value, and what it needs beside it to act."""

_LINES: dict[str, Value] = {
    "dac_bits": 3, "adc_bits": 3, "input_range": 0.5, "output_range": 0.5, "offset": 0.1,
    "gain": 0.1, "offset_drift": 0.1, "line_noise": 0.1,
}  # fmt: skip
PROBES |= {f"{d}.{key}": (value, {}) for d in DIRECTIONS for key, value in _LINES.items()}
PROBES |= {f"{d}.offset_time_s": (1.0, {f"{d}.offset_drift": 0.1}) for d in DIRECTIONS}

ELSEWHERE = ("node.offset", "clock.pass_s", "clock.phase_interval_s")
"""Entries that are no array's: of the state nodes, and of when a chip reads its arrays."""

_ONE_WAY = {"array.rows": "forward", "array.columns": "transpose"}
"""Probes of the array whose partners belong to one direction."""


def _reads(bench: Bench, array: CrossbarLike) -> dict[str, np.ndarray]:
    """Reads of both directions at one address and time."""
    position = Position(0, 0, 0.37)
    x = {"forward": bench.normal(6, 9, seed=1), "transpose": bench.normal(6, 8, seed=2)}
    return {d: numbers(read(array, d, x[d], position=position)) for d in DIRECTIONS}


def acts_on(key: str) -> tuple[str, ...]:
    """The directions that an entry must change."""
    section = key.partition(".")[0]
    if section in DIRECTIONS:
        return (section,)
    if key in _ONE_WAY:
        return (_ONE_WAY[key],)
    return DIRECTIONS


def _knob(key: str) -> Check:
    value, needs = PROBES[key]

    def run(bench: Bench) -> Iterator[Measured]:
        w = bench.normal(8, 9)
        before = _reads(bench, bench.build(w, needs))
        again = _reads(bench, bench.build(w, needs))
        after = _reads(bench, bench.build(w, {**needs, key: value}))
        for direction in DIRECTIONS:
            same = bool((before[direction] == again[direction]).all())
            yield count(f"{direction}: two equal chips differ", not same)
            change = float(np.abs(after[direction] - before[direction]).max())
            share = change / float(np.abs(before[direction]).max())
            if direction in acts_on(key):
                yield count(f"{direction}: changed by only {share:.1e}", not share > SMALLEST)
            else:
                # other tiles may sum in another order
                limit = 64 * bench.eps if key in _ONE_WAY else 0.0
                yield Measured(f"{direction}: changed, which it must not", share, limit)

    where = " and ".join(acts_on(key))
    claim = f"It changes {where} reads" + ("." if len(acts_on(key)) > 1 else ", and only those.")
    return Check("knobs", key, claim, "the read without it", run)


CHECKS = tuple(_knob(key) for key in PROBES)
