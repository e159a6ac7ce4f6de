"""The power law, cell by cell."""

import itertools

import numpy as np

from eptsim.cell.drift import drifted

G = np.array([1e-6, 5e-6, 2e-5])


def test_power_law():
    got = drifted(G, 0.06, 0.0, 3600.0, 20.0, np.zeros(3))
    np.testing.assert_allclose(got, G * 180.0**-0.06, rtol=1e-14)


def test_a_decade_is_a_decade():
    steps = [drifted(G, 0.1, 0.0, 20.0 * 10.0**n, 20.0, np.zeros(3)) for n in range(4)]
    for earlier, later in itertools.pairwise(steps):
        np.testing.assert_allclose(later / earlier, 10**-0.1, rtol=1e-13)


def test_each_cell_has_an_exponent_of_its_own_never_below_zero():
    got = drifted(G, 0.05, 0.02, 2e5, 20.0, np.array([0.0, 2.0, -5.0]))
    np.testing.assert_allclose(got, G * 1e4 ** -np.array([0.05, 0.09, 0.0]), rtol=1e-14)


def test_nothing_drifts_before_t0():
    np.testing.assert_array_equal(drifted(G, 0.5, 0.0, 20.0, 20.0, np.zeros(3)), G)


def test_a_ratio_of_times_beyond_any_float():
    got = drifted(G, 0.001, 0.0, 1e12, 1e-300, np.zeros(3))
    np.testing.assert_allclose(got, G * 10.0 ** (-0.001 * 312), rtol=1e-12)
