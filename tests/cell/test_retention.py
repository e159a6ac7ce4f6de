"""Relaxation of a stored conductance."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from eptsim.cell.retention import retained

G = np.array([1e-6, 5e-6, 2e-5])
G_MIN, G_MAX = 1e-6, 2.1e-5


def test_simple_exponential():
    got = retained(G, G_MIN, G_MAX, 30.0, 10.0, 1.0, 0.0)
    np.testing.assert_allclose(got, G_MIN + (G - G_MIN) * math.exp(-3), rtol=1e-14)


def test_stretched_towards_a_level_inside_the_window():
    got = retained(G, G_MIN, G_MAX, 160.0, 10.0, 0.25, 0.3)
    end = G_MIN + 0.3 * (G_MAX - G_MIN)
    np.testing.assert_allclose(got, end + (G - end) * math.exp(-2), rtol=1e-14)


def test_at_tau_every_stretch_leaves_one_over_e():
    for stretch in (0.1, 0.5, 1.0):
        got = retained(G, 0.0, G_MAX, 7.0, 7.0, stretch, 0.0)
        np.testing.assert_allclose(got, G / math.e, rtol=1e-14)


def test_what_is_kept():
    assert retained(G, G_MIN, G_MAX, 1e12, None, 1.0, 0.0) is G
    assert retained(G, G_MIN, G_MAX, 0.0, 1.0, 1.0, 0.0) is G
    np.testing.assert_array_equal(retained(G, G_MIN, G_MAX, 1e-30, 1e15, 1.0, 0.5), G)


def test_what_is_lost():
    got = retained(G, G_MIN, G_MAX, 1e12, 1e-300, 1.0, 0.5)
    np.testing.assert_array_equal(got, np.full(3, G_MIN + 0.5 * (G_MAX - G_MIN)))


@given(
    st.floats(0, 1e12),
    st.floats(0, 1e15),
    st.floats(5e-324, 1e15),
    st.floats(1e-6, 1),
    st.floats(0, 1),
)
def test_extremes_give_numbers_between_start_and_end(g, time, tau, stretch, level):
    got = retained(np.array([g]), 0.0, 1.0, time, tau, stretch, level)[0]
    low, high = min(g, level), max(g, level)
    assert low - 1e-15 * high <= got <= high * (1 + 1e-15)
