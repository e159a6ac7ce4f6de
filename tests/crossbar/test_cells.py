"""Programming the cells of one device: laws, counts, and draws that belong to cells."""

import math

import numpy as np
import pytest
from scipy import stats

from eptsim.base.streams import Stream
from eptsim.base.table import Table
from eptsim.crossbar import cells
from eptsim.crossbar.cells import CellCounts, holds_exactly, program_cells, stuck_cells

G_MIN, G_MAX = 1e-6, 2.1e-5
CELL = {"cell.g_min_s": G_MIN, "cell.g_max_s": G_MAX}
STREAM = Stream.of(7, "a", "program")
TARGET = np.random.default_rng(0).uniform(G_MIN, G_MAX, size=(300, 400))
N = TARGET.size
FLAT = Table((0.0, G_MAX), (1e-8, 1e-8))
#: One entry at a time that moves a cell off its target.
FLAWS = {
    "levels": {"cell.levels": 4},
    "low": {"cell.spread.g_min": 0.01},
    "high": {"cell.spread.g_max": 0.01},
    "sigma": {"cell.programming.sigma": 0.01},
    "linear": {"cell.programming.sigma_linear": 0.01},
    "quadratic": {"cell.programming.sigma_quadratic": 0.01},
    "table": {"cell.programming.table": FLAT},
    "drift": {"cell.drift.nu": 0.01},
    "drift spread": {"cell.drift.nu_sigma": 0.01},
    "retention": {"cell.retention.tau_s": 1e4},
    "stuck low": {"cell.stuck.low": 0.1},
    "stuck high": {"cell.stuck.high": 0.1},
    "stuck random": {"cell.stuck.random": 0.1},
}
ALL = {
    **FLAWS["levels"], **FLAWS["low"], **FLAWS["high"], **FLAWS["sigma"], **FLAWS["drift"],
    **FLAWS["drift spread"], **FLAWS["retention"], **FLAWS["stuck low"], **FLAWS["stuck random"],
    "cell.programming.verify_tolerance": 0.01, "cell.programming.verify_rounds": 3,
    "cell.drift.compensation": "reference_read",
}  # fmt: skip


def write(ideal, changes, target=TARGET, plane=0):
    return program_cells(target, ideal.override({**CELL, **changes}), STREAM, plane)


def assert_share(found, n, want):
    assert abs(found / n - want) < 4.5 * (want * (1 - want) / n) ** 0.5 + 1e-12


def test_an_ideal_cell_holds_its_target(ideal):
    assert holds_exactly(ideal)
    done = write(ideal, {})
    np.testing.assert_array_equal(done.g_s, TARGET)
    assert done.before_s == pytest.approx(TARGET.sum(), rel=1e-12)
    assert done.counts == CellCounts(N, 0, 0)


@pytest.mark.parametrize("flaw", FLAWS)
def test_every_flaw_moves_a_cell(ideal, flaw):
    assert not holds_exactly(ideal.override({**CELL, **FLAWS[flaw]}))
    assert (write(ideal, FLAWS[flaw]).g_s != TARGET).any()


def test_counts_add_up():
    assert CellCounts(1, 2, 3) + CellCounts(10, 20, 30) == CellCounts(11, 22, 33)


def test_blocks_of_rows_change_no_bit(ideal, monkeypatch):
    whole = write(ideal, ALL)
    for block in (1, 400, 7 * 400 + 13, 2**30):
        monkeypatch.setattr(cells, "_BLOCK", block)
        part = write(ideal, ALL)
        np.testing.assert_array_equal(part.g_s, whole.g_s)
        assert part.counts == whole.counts
        assert part.before_s == pytest.approx(whole.before_s, rel=1e-12)
    assert min(whole.counts.unverified, whole.counts.stuck) > 1000


def test_a_row_does_not_depend_on_the_rows_around_it(ideal):
    whole, part = write(ideal, ALL), write(ideal, ALL, TARGET[:9])
    np.testing.assert_array_equal(part.g_s, whole.g_s[:9])


def test_every_device_has_its_own_draws(ideal):
    target = np.full((300, 400), 0.5 * G_MAX)
    changes = {**FLAWS["sigma"], **FLAWS["drift spread"]}
    errors = [write(ideal, changes, target, plane=n).g_s - target for n in (0, 1, 3)]
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert abs(np.corrcoef(errors[one].ravel(), errors[other].ravel())[0, 1]) < 4.5 / N**0.5


@pytest.mark.parametrize("mean", [0.3, 0.8])
def test_the_programming_polynomial(ideal, mean):
    changes = {
        "cell.programming.sigma": 0.02, "cell.programming.sigma_linear": 0.1,
        "cell.programming.sigma_quadratic": -0.08,
    }
    target = np.full((300, 400), mean * G_MAX)
    error = write(ideal, changes, target).g_s / G_MAX - mean
    want = 0.02 + 0.1 * mean - 0.08 * mean**2
    assert error.std() == pytest.approx(want, rel=4.5 / (2 * N) ** 0.5)
    assert abs(error.mean()) < 4.5 * want / N**0.5


@pytest.mark.parametrize("rounds", [1, 2, 5])
def test_verify_fails_as_often_as_its_attempts_do(ideal, rounds):
    """Every attempt lies inside with p = erf(tolerance / (sigma sqrt 2)), on its own."""
    changes = {
        "cell.programming.sigma": 0.02, "cell.programming.verify_tolerance": 0.01,
        "cell.programming.verify_rounds": rounds,
    }
    target = np.full((300, 400), 0.6 * G_MAX)
    done = write(ideal, changes, target)
    error = np.abs(done.g_s - target) / G_MAX
    assert (error > 0.01).sum() == done.counts.unverified
    assert_share(done.counts.unverified, N, (1 - math.erf(0.5 / 2**0.5)) ** rounds)
    inside = (done.g_s - target)[error <= 0.01] / G_MAX / 0.02
    law = stats.truncnorm(-0.5, 0.5)
    assert stats.kstest(inside[:20000], law.cdf).pvalue > 1e-4


def test_verify_cannot_put_a_cell_outside_its_window(ideal):
    """A cell that cannot reach its target by more than the tolerance fails, and says so."""
    changes = {
        "cell.spread.g_max": 0.05, "cell.programming.sigma": 1e-6,
        "cell.programming.verify_tolerance": 0.02,
    }
    done = write(ideal, changes, np.full((300, 400), G_MAX))
    short = stats.norm.cdf(-0.02 / 0.05)
    assert_share(done.counts.unverified, N, short)
    assert_share((done.g_s < (1 - 0.02) * G_MAX).sum(), N, short)


def test_windows_spread_around_their_ends(ideal):
    """A cell aimed at an end holds the nearer of that and its own end: half are cut, half not."""
    for key, target, sign in (("g_max", G_MAX, -1), ("g_min", 0.3 * G_MAX, 1)):
        changes = {"cell.g_min_s": 0.3 * G_MAX, f"cell.spread.{key}": 0.04}
        moved = sign * (write(ideal, changes, np.full((300, 400), target)).g_s - target) / G_MAX
        assert_share((moved < 1e-12).sum(), N, 0.5)
        cut = moved[moved > 1e-12]
        assert stats.kstest(cut[:20000] / 0.04, stats.halfnorm.cdf).pvalue > 1e-4


def test_retention_follows_its_law(ideal):
    changes = {
        "cell.retention.tau_s": 1e4, "cell.retention.stretch": 0.5, "cell.retention.level": 0.25,
        "cell.drift.time_s": 2500.0,
    }
    end = G_MIN + 0.25 * (G_MAX - G_MIN)
    want = end + (TARGET - end) * math.exp(-0.5)
    np.testing.assert_allclose(write(ideal, changes).g_s, want, rtol=1e-12)


def test_stuck_cells_are_counted_and_say_where_they_are(ideal):
    changes = {"cell.stuck.low": 0.1, "cell.stuck.high": 0.15, "cell.stuck.random": 0.2}
    target = np.full((300, 400), 0.5 * G_MAX)
    done = write(ideal, changes, target, plane=2)
    moved = done.g_s != target
    assert done.counts.stuck == moved.sum()
    np.testing.assert_array_equal(
        moved, stuck_cells(ideal.override({**CELL, **changes}), STREAM, 300, 400, 2)
    )
    assert_share((done.g_s == G_MIN).sum(), N, 0.1)
    assert_share((done.g_s == G_MAX).sum(), N, 0.15)
    level = done.g_s[moved & (done.g_s != G_MIN) & (done.g_s != G_MAX)]
    assert_share(level.size, N, 0.2)
    place = (level - G_MIN) / (G_MAX - G_MIN)
    assert stats.kstest(place[:20000], "uniform").pvalue > 1e-4


def test_stuck_cells_neither_drift_nor_fade(ideal):
    changes = {
        "cell.stuck.low": 0.3, "cell.stuck.high": 0.3, "cell.stuck.random": 0.4,
        "cell.drift.nu": 0.1, "cell.retention.tau_s": 10.0, "cell.programming.sigma": 0.1,
    }
    alone = {k: v for k, v in changes.items() if k.startswith("cell.stuck")}
    np.testing.assert_array_equal(write(ideal, changes).g_s, write(ideal, alone).g_s)


@pytest.mark.parametrize("compensation", ["none", "reference_read"])
def test_the_sum_right_after_programming(ideal, compensation):
    """What the reference read compares with: stuck cells included, time not."""
    time = {"cell.drift.nu": 0.1, "cell.retention.tau_s": 1e4}
    stuck = {"cell.stuck.low": 0.2, "cell.programming.sigma": 0.01}
    done = write(ideal, {**stuck, **time, "cell.drift.compensation": compensation})
    if compensation == "reference_read":
        before = write(ideal, stuck)
        assert done.before_s == pytest.approx(before.g_s.sum(), rel=1e-12)
    assert done.g_s.sum() < 0.95 * write(ideal, stuck).g_s.sum()
