"""Levels, programming error and stuck cells of given cells."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from eptsim.cell.programming import programmed, stuck, to_levels

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
