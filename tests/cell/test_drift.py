"""The power law, cell by cell."""

import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from eptsim.cell.drift import compensation, drifted

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


def test_compensation_undoes_a_drift_that_all_cells_share():
    later = drifted(G, 0.06, 0.0, 3600.0, 20.0, np.zeros(3))
    np.testing.assert_allclose(compensation(G, later) * later, G, rtol=1e-13)
    assert compensation(G, G) == 1.0


def test_compensation_keeps_the_sum_when_cells_drift_apart():
    later = drifted(G, 0.06, 0.02, 1e6, 20.0, np.array([1.0, -1.0, 0.3]))
    np.testing.assert_allclose((compensation(G, later) * later).sum(), G.sum(), rtol=1e-13)


def test_compensation_of_nothing_is_one():
    assert compensation(G, np.zeros(3)) == 1.0
    assert compensation(np.zeros(3), G) == 1.0
    assert compensation(G, np.full(3, 5e-324)) == 1.0


@given(
    st.floats(0, 1e3),
    st.floats(0, 10),
    st.floats(0, 10),
    st.floats(1e-300, 1e12),
    st.floats(1e-300, 1e12),
    st.floats(-10, 10),
)
def test_extremes_give_numbers(g, nu, nu_sigma, time, t0, normal):
    before = np.array([g])
    later = drifted(before, nu, nu_sigma, time, t0, np.array([normal]))
    assert 0 <= later[0] <= g
    assert 0 < compensation(before, later) < np.inf
