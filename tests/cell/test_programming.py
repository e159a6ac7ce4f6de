"""Levels, programming error and stuck cells of given cells."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eptsim.base.errors import InputError
from eptsim.base.table import Table
from eptsim.cell.programming import (
    cell_window,
    programmed,
    programming_sigma_s,
    stuck,
    to_levels,
    write_verify,
)

G_MIN, G_MAX = 1e-6, 2.1e-5


@given(st.integers(2, 300), st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_levels_are_the_nearest_of_an_equal_grid(levels, fractions):
    g = G_MIN + np.array(fractions) * (G_MAX - G_MIN)
    grid = np.linspace(G_MIN, G_MAX, levels)
    got = to_levels(g, G_MIN, G_MAX, levels)
    distance = np.abs(got[:, None] - grid).min(axis=1)
    nearest = np.abs(g[:, None] - grid).min(axis=1)
    assert (distance < 1e-12 * G_MAX).all()
    np.testing.assert_allclose(np.abs(got - g), nearest, atol=1e-12 * G_MAX)


def test_a_continuous_cell_is_left_alone():
    g = np.linspace(G_MIN, G_MAX, 7)
    assert to_levels(g, G_MIN, G_MAX, None) is g


def test_the_extremes_are_levels():
    np.testing.assert_allclose(
        to_levels(np.array([G_MIN, G_MAX]), G_MIN, G_MAX, 5), [G_MIN, G_MAX], rtol=1e-14
    )


def test_programming_error_is_additive_and_cut_at_zero():
    g, normal = np.array([1e-6, 1e-6, 5e-6]), np.array([1.0, -3.0, -1.0])
    np.testing.assert_allclose(programmed(g, 5e-7, normal), [1.5e-6, 0.0, 4.5e-6], rtol=1e-14)


def test_stuck_cells():
    u = np.array([0.05, 0.15, 0.5, 0.75, 0.95])
    g = np.full(5, 5e-6)
    got = stuck(g, G_MIN, G_MAX, 0.1, 0.2, u)
    np.testing.assert_array_equal(got, [G_MIN, 5e-6, 5e-6, 5e-6, G_MAX])
    np.testing.assert_array_equal(stuck(g, G_MIN, G_MAX, 1.0, 0.0, u), np.full(5, G_MIN))
    np.testing.assert_array_equal(stuck(g, G_MIN, G_MAX, 0.0, 1.0, u), np.full(5, G_MAX))
    np.testing.assert_array_equal(stuck(g, G_MIN, G_MAX, 0.0, 0.0, u), g)


def test_stuck_at_random():
    rng = np.random.default_rng(3)
    n = 200_000
    uniform, level = 1 - rng.random(n), 1 - rng.random(n)
    g = np.full(n, 9e-6)
    got = stuck(g, G_MIN, G_MAX, 0.1, 0.2, uniform, 0.3, level)
    plain = stuck(g, G_MIN, G_MAX, 0.1, 0.2, uniform)
    for at in (G_MIN, G_MAX):  # adding random ones leaves the others
        np.testing.assert_array_equal((got == at), (plain == at))
    moved = (got != 9e-6) & (got != G_MIN) & (got != G_MAX)
    assert abs(moved.mean() - 0.3) < 4 * (0.3 * 0.7 / n) ** 0.5
    where = (got[moved] - G_MIN) / (G_MAX - G_MIN)
    assert abs(where.mean() - 0.5) < 4 * (1 / 12 / where.size) ** 0.5
    assert 0 <= where.min() and where.max() <= 1
    assert len(np.unique(where)) > 0.99 * where.size
    everywhere = stuck(g, G_MIN, G_MAX, 0.0, 0.0, uniform, 1.0, level)
    np.testing.assert_array_equal(everywhere, G_MIN + level * (G_MAX - G_MIN))
    np.testing.assert_array_equal(stuck(g, G_MIN, G_MAX, 0.1, 0.2, uniform, 0.0, level), plain)


def test_sigma_is_the_polynomial_cut_at_zero():
    x = np.array([0.0, 0.25, 0.5, 1.0])
    got = programming_sigma_s(x * G_MAX, G_MAX, 0.02, 0.1, -0.2, None)
    want = G_MAX * np.array([0.02, 0.02 + 0.025 - 0.0125, 0.02 + 0.05 - 0.05, 0.0])
    np.testing.assert_allclose(got, want, rtol=1e-13, atol=1e-22)


def test_sigma_by_table_replaces_the_polynomial():
    table = Table.of([1e-6, 2e-6], [1e-7, 3e-7])
    got = programming_sigma_s(np.array([0.0, 1.5e-6, 1.0]), G_MAX, 0.5, 0.5, 0.5, table)
    np.testing.assert_allclose(got, [1e-7, 2e-7, 3e-7], rtol=1e-13)


def draws(*values):
    return lambda attempt: np.array(values[attempt])


def test_verify_programs_again_only_what_is_outside():
    target = np.full(4, 1e-5)
    g, failed = write_verify(
        target, 1e-6, 0.5e-6, 3, draws([0.4, 2, -2, 2], [9, -0.4, 3, 9], [9, 9, 1, 0.1]), 0.0, 1.0
    )
    np.testing.assert_allclose(g, [1.04e-5, 0.96e-5, 1.1e-5, 1.01e-5], rtol=1e-12)
    np.testing.assert_array_equal(failed, [False, False, True, False])


def test_verify_asks_for_no_more_draws_than_it_needs():
    asked = []

    def draw(attempt):
        asked.append(attempt)
        return np.zeros(2)

    write_verify(np.array([1e-6, 2e-6]), 1e-7, 1e-8, 50, draw, 0.0, 1.0)
    assert asked == [0]
    once, failed = write_verify(np.array([1e-6]), 1e-6, math.inf, 50, draws([-7.0]), 0.0, 1.0)
    assert once == 0.0
    assert not failed.any()
    with pytest.raises(InputError, match="rounds: found 0"):
        write_verify(np.array([1e-6]), 1e-7, 1e-8, 0, draw, 0.0, 1.0)


@pytest.mark.parametrize("rounds", [1, 2, 5])
def test_verify_fails_as_often_as_theory_says_and_leaves_a_cut_gaussian(rounds):
    n, width = 400_000, 0.7
    rng = np.random.default_rng(rounds)
    g, failed = write_verify(
        np.full(n, 1e-5), 1e-6, width * 1e-6, rounds, lambda _: rng.standard_normal(n), 0.0, 1.0
    )
    inside = math.erf(width / 2**0.5)
    fail = (1 - inside) ** rounds
    assert abs(failed.mean() - fail) < 4 * (fail * (1 - fail) / n) ** 0.5
    z = (g[~failed] - 1e-5) / 1e-6
    assert np.abs(z).max() <= width * (1 + 1e-9)
    # variance of a Gaussian cut at +-width; a variable within +-width has a kurtosis term < width^4
    density = math.exp(-(width**2) / 2) / (2 * math.pi) ** 0.5
    variance = 1 - 2 * width * density / inside
    assert abs((z**2).mean() - variance) < 4 * width**2 / z.size**0.5
    assert abs(z.mean()) < 4 * (variance / z.size) ** 0.5


def test_a_cell_that_cannot_hold_its_target_is_aimed_at_its_own_limit_and_fails():
    target = np.array([1e-6, 5e-6, 2e-5])
    low, high = np.array([3e-6] * 3), np.array([1e-5] * 3)
    g, failed = write_verify(target, 0.0, 1e-6, 4, lambda _: np.zeros(3), low, high)
    np.testing.assert_array_equal(g, [3e-6, 5e-6, 1e-5])
    np.testing.assert_array_equal(failed, [True, False, True])


def test_window_spreads_around_the_nominal_ends():
    n = 200_000
    rng = np.random.default_rng(7)
    low, high = cell_window(5e-6, G_MAX, 0.02, 0.05, rng.standard_normal(n), rng.standard_normal(n))
    for got, mean, sigma in ((low, 5e-6, 0.02 * G_MAX), (high, G_MAX, 0.05 * G_MAX)):
        assert abs(got.mean() - mean) < 4 * sigma / n**0.5
        assert abs(got.std() / sigma - 1) < 4 * (0.5 / n) ** 0.5


def test_a_window_is_never_negative_nor_crossed():
    low, high = cell_window(
        1e-6, 2e-6, 1.0, 1.0, np.array([-9.0, 2.0, 0.0]), np.array([0.0, 0.0, -9.0])
    )
    np.testing.assert_allclose(low, [0.0, 3.5e-6, 0.5e-6], rtol=1e-12)
    np.testing.assert_allclose(high, [2e-6, 3.5e-6, 0.5e-6], rtol=1e-12)


ANY = st.floats(0, 1e12)
NORMAL = st.floats(-10, 10)


@given(ANY, ANY, ANY, NORMAL, NORMAL, NORMAL, ANY, ANY)
def test_extremes_give_numbers(g_min, g_max, sigma, normal, second, third, tolerance, target):
    g_max = max(g_min, g_max, 1e-30)
    low, high = cell_window(g_min, g_max, sigma, sigma, np.array([normal]), np.array([second]))
    assert 0 <= low[0] <= high[0] < math.inf
    wanted = np.array([target])
    error = programming_sigma_s(wanted, g_max, sigma, normal, second, None)
    assert error[0] >= 0
    g, failed = write_verify(
        wanted, np.minimum(error, 1e300), tolerance, 3, lambda _: np.array([third]), low, high
    )
    assert g[0] >= 0
    assert failed[0] == (abs(g[0] - target) > tolerance)
