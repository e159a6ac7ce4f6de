"""What moves with time, and what a voltage bends: drift, retention, 1/f noise, wander, I-V."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np

from eptsim.base.table import Table
from eptsim.crossbar.stages import Position
from eptsim.testing.bench import (
    DIRECTIONS,
    Array,
    Bench,
    drives,
    matrix,
    numbers,
    product,
    read,
    rounding,
)
from eptsim.testing.check import Check, Measured, both
from eptsim.testing.flaws import CELLS, G_MAX_S, G_MIN_S, SPAN_S, G, conductances
from eptsim.testing.statistics import correlation_is, mean_is, normal_is, variance_is

EXACT = "the law in float64"
NORMAL = "the law, 5 standard errors"
TIME = {"cell.drift.t0_s": 20.0, "cell.drift.time_s": 2e5}
DECADES = math.log(2e5 / 20.0)


def _drift(bench: Bench) -> Iterator[Measured]:
    for w in (-0.9, 0.0, 0.8):
        g_s = conductances(bench, w, {"cell.drift.nu": 0.05, **TIME})
        start = 0.5 * (G_MIN_S + G_MAX_S) + 0.5 * SPAN_S * w
        want = start * math.exp(-0.05 * DECADES)
        off = float(np.abs(g_s - want).max() / G_MAX_S)
        yield Measured(f"weight {w}: error over g_max", off, 32 * bench.eps)


def _drift_spread(bench: Bench) -> Iterator[Measured]:
    g_s = conductances(bench, 0.0, {"cell.drift.nu": 0.06, "cell.drift.nu_sigma": 0.01, **TIME})
    nu = -np.log(g_s / (0.5 * (G_MIN_S + G_MAX_S))) / DECADES
    yield mean_is("exponent", nu, 0.06, 0.01)
    yield variance_is("exponent", nu, 0.01**2)
    yield normal_is("exponent", (nu - 0.06) / 0.01)


def _compensation(bench: Bench) -> Iterator[Measured]:
    """Cells that all lose the same share are read as if they had not."""
    w = bench.weight(20, 30)
    changes = {**TIME, "cell.drift.nu": 0.05, "cell.drift.compensation": "reference_read"}
    array = bench.build(w, changes)
    for direction in DIRECTIONS:
        off = float(np.abs(matrix(bench, array, direction) - numbers(w)).max())
        yield Measured(f"{direction}: error", off, 64 * bench.eps)


def _retention(bench: Bench) -> Iterator[Measured]:
    for stretch, level in ((1.0, 0.0), (0.5, 0.4)):
        changes = {
            "cell.retention.tau_s": 1e5, "cell.retention.stretch": stretch,
            "cell.retention.level": level, "cell.drift.time_s": 2e5,
        }  # fmt: skip
        left = math.exp(-(2.0**stretch))
        end = G_MIN_S + level * SPAN_S
        for w in (-0.9, 0.8):
            g_s = conductances(bench, w, changes)
            start = 0.5 * (G_MIN_S + G_MAX_S) + 0.5 * SPAN_S * w
            off = float(np.abs(g_s - (end + (start - end) * left)).max() / G_MAX_S)
            yield Measured(f"stretch {stretch}, weight {w}: error over g_max", off, 32 * bench.eps)


def _flicker(bench: Bench) -> Iterator[Measured]:
    """Mean square change of ln G over a time t: 2 sigma^2 ln(t / fastest), within 3 %."""
    sigma, fastest = 2e-3, 1e-4
    changes = {
        "cell.flicker.sigma": sigma, "cell.flicker.fastest_s": fastest,
        "cell.flicker.slowest_s": 1e4,
    }  # fmt: skip
    starts = (0.0, 3.0, 700.0)
    for apart in (1e-2, 1.0, 100.0):
        changed = []
        for start in starts:
            a, b = (
                conductances(bench, 0.8, changes, time_s=time) for time in (start, start + apart)
            )
            changed.append(np.log(b / a))
        want = 2 * sigma**2 * math.log(apart / fastest)
        yield variance_is(f"{apart:g} s apart", np.concatenate(changed), want, slack=0.03)
    one, again = (conductances(bench, 0.8, changes, time_s=5.0) for _ in range(2))
    yield Measured("two reads at one time apart", float(np.abs(one - again).max()), 0.0)
    fresh = conductances(bench, 0.8, changes, seed=1, time_s=5.0)
    yield correlation_is("two seeds", one, fresh)
    cells = np.append(one[0], one).reshape(-1, 50)
    yield correlation_is("neighbours", cells[:, 1:], cells[:, :-1])


def _lines_at(
    bench: Bench, direction: str, changes: Mapping[str, object], times: tuple[float, ...]
) -> list[Array]:
    lines = CELLS
    w = bench.tensor(np.ones((lines, 1) if direction == "forward" else (1, lines)))
    array = bench.build(w, changes)
    zero = bench.tensor([[0.0]])
    return [
        numbers(read(array, direction, zero, policy="fixed", position=Position(0, 0, time)))[0]
        for time in times
    ]


def _wander(bench: Bench, direction: str) -> Iterator[Measured]:
    """Stationary, with correlation exp(-t / time): an Ornstein-Uhlenbeck process."""
    changes = {f"{direction}.offset_drift": 0.02, f"{direction}.offset_time_s": 0.1}
    sigma = 0.02 * 12
    times = (0.0, 0.05, 0.15, 5.0, 5.0)
    found = _lines_at(bench, direction, changes, times)
    for time, values in zip(times, found, strict=True):
        yield mean_is(f"at {time} s", values, 0.0, sigma)
        yield variance_is(f"at {time} s", values, sigma**2)
    for a, b in ((0, 1), (1, 2), (0, 2), (2, 3)):
        want = math.exp(-(times[b] - times[a]) / 0.1)
        yield correlation_is(f"{times[a]} s and {times[b]} s", found[a], found[b], want)
    yield Measured("two reads at one time apart", float(np.abs(found[3] - found[4]).max()), 0.0)


LAWS: dict[str, Mapping[str, object]] = {
    "sinh": {"cell.iv.law": "sinh", "cell.iv.v0_v": 0.15},
    "cubic": {"cell.iv.law": "cubic", "cell.iv.v0_v": 0.25},
    "table": {
        "cell.iv.law": "table",
        "cell.iv.table": Table((0.0, 0.1, 0.2, 0.5), (0.0, 0.1, 0.25, 0.8)),
    },
}
VOLTAGE_V = 0.3


def _bent_v(volts: Array, law: str) -> Array:
    """f(V), odd."""
    if law == "sinh":
        return np.asarray(0.15 * np.sinh(volts / 0.15))
    if law == "cubic":
        return np.asarray(volts * (1.0 + (volts / 0.25) ** 2))
    bent = np.interp(np.abs(volts), (0.0, 0.1, 0.2, 0.5), (0.0, 0.1, 0.25, 0.8))
    return np.asarray(np.sign(volts) * bent)


def _current_voltage(law: str) -> Check:
    def run(bench: Bench) -> Iterator[Measured]:
        w = bench.weight(9, 16)
        changes = {
            **G, **LAWS[law], "array.coding": "amplitude", "array.read_voltage_v": VOLTAGE_V,
            "array.rows": 7,
        }  # fmt: skip
        array = bench.build(w, changes)
        exact = bench.build(w, {**changes, "array.coding": "pulse_width"})
        for direction in DIRECTIONS:
            x = bench.codes(50, drives(w.shape, direction))
            full = float(_bent_v(np.array(VOLTAGE_V), law))
            bent = _bent_v(numbers(x) * VOLTAGE_V, law) / full
            limit = 4 * rounding(bench, numbers(w), direction, np.ones_like(numbers(x)))
            for name, one, drive in (
                ("amplitude", array, bent), ("pulse width", exact, numbers(x))
            ):
                y = numbers(read(one, direction, x, policy="fixed"))
                off = float(np.abs(y - product(numbers(w), direction, drive)).max())
                yield Measured(f"{direction}, {name}: error", off, limit)

    claim = f"The current-voltage law '{law}' bends amplitudes, and no pulse widths."
    return Check("moves", f"iv-{law}", claim, EXACT, run)


CHECKS = (
    Check("moves", "drift", "Drift is the power law of the card, cell by cell.", EXACT, _drift),
    Check(
        "moves", "drift-spread", "Each cell has its own drift exponent.", NORMAL, _drift_spread
    ),
    Check(
        "moves", "drift-compensation", "A reference read undoes a drift that all cells share.",
        "the weight", _compensation,
    ),
    Check(
        "moves", "retention", "Retention is the card's stretched exponential.", EXACT, _retention
    ),
    Check(
        "moves", "flicker",
        "Two reads of a cell differ by sigma sqrt(2 ln(t / fastest)), and not at one time.",
        NORMAL, _flicker,
    ),
    *both(
        "moves", "wander", "Wandering offsets are stationary and forget exponentially.", NORMAL,
        _wander,
    ),
    *(_current_voltage(law) for law in LAWS),
)  # fmt: skip
