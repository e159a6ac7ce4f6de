"""The Ornstein-Uhlenbeck process: exact covariance, and that it is a pure function of time."""

import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from eptsim.base.errors import InputError
from eptsim.base.streams import Stream
from eptsim.crossbar import wander as module
from eptsim.crossbar.wander import wander

STREAM = Stream.of(5, "wander")


def weights(times, tau):
    """Weights of all the independent normals in the values at ``times``, (times, normals)."""
    addresses = {}

    def unit(stream, rows, lines, period, node):
        vector = np.zeros((rows, lines))
        vector[0, addresses.setdefault((period, node), len(addresses))] = 1.0
        return vector

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_normal", unit)
        return np.stack([wander(STREAM, 1, 3000, t, tau)[0] for t in times])


# Values are sums of independent normals, so the products of their weights are the covariance.


def test_covariance_is_exact():
    random = np.random.default_rng(1).uniform(0, 300, 40)
    times = np.concatenate([random, [0, 63.9, 64, 64.01, 128]])
    values = weights(times, 1.0)
    want = np.exp(-np.abs(times[:, None] - times))
    # a time is rounded down by up to 64 / 2^40 = 6e-11
    np.testing.assert_allclose(values @ values.T, want, rtol=0, atol=1.3e-10)


@settings(deadline=None)
@given(st.integers(0, 100 * 2**20), st.integers(0, 2**23), st.integers(-30, 40))
def test_covariance_is_exact_at_times_that_need_no_rounding(start, lag, power):
    step = 2.0 ** (power - 20)
    values = weights([start * step, (start + lag) * step], 2.0**power)
    want = math.exp(-lag * 2.0**-20)
    np.testing.assert_allclose(values @ values.T, [[1, want], [want, 1]], rtol=0, atol=1e-13)


@pytest.mark.parametrize("tau", [1e-9, 1e-3, 1.0, 1e5, 1e12])
def test_autocovariance_of_draws(tau):
    n, start = 200_000, 777.7 * tau
    first = wander(STREAM, 1, n, start, tau)[0]
    for lag in (1e-3, 0.1, 0.5, 1.0, 2.0, 5.0):
        later = wander(STREAM, 1, n, start + lag * tau, tau)[0]
        rho = math.exp(-lag)
        # standard errors of n pairs: product sqrt((1 + rho^2) / n), variance sqrt(2 / n)
        assert abs((first * later).mean() - rho) < 4.5 * ((1 + rho**2) / n) ** 0.5
        assert abs(later.var() - 1) < 4.5 * (2 / n) ** 0.5
        step = later - first
        assert abs((step**2).mean() / (2 * (1 - rho)) - 1) < 4.5 * (2 / n) ** 0.5


def test_several_times_are_jointly_normal():
    n, times = 100_000, np.array([1.0, 1.2, 2.5, 31.9, 32.1, 63.8, 64.3, 66.0])
    x = np.stack([wander(STREAM, 1, n, t, 1.0)[0] for t in times])
    factor = np.linalg.cholesky(np.exp(-np.abs(times[:, None] - times)))
    white = np.linalg.solve(factor, x)  # independent standard normals, if the law is right
    np.testing.assert_allclose(white @ white.T / n, np.eye(8), atol=4.5 * (2 / n) ** 0.5)
    for row in white:
        assert scipy.stats.kstest(row, "norm").pvalue > 1e-4
    # sum of 8 squares: chi-square with 8 degrees of freedom, which only joint normals give
    assert scipy.stats.kstest((white**2).sum(axis=0), "chi2", args=(8,)).pvalue > 1e-4


def test_any_order_the_same_bits():
    times = [0.0, 0.3, 17.0, 64.0, 64.0000001, 1e4]
    forth = [wander(STREAM, 3, 50, t, 1.0) for t in times]
    back = [wander(STREAM, 3, 50, t, 1.0) for t in reversed(times)][::-1]
    np.testing.assert_array_equal(forth, back)
    np.testing.assert_array_equal(
        wander(STREAM, 3, 50, 1.0, 1.0), wander(STREAM, 3, 50, 1.0 + 1e-12, 1.0)
    )


def test_lines_rows_streams_are_independent():
    a = wander(STREAM, 400, 400, 10.0, 1.0)
    n = a.size
    assert abs((a[1:] * a[:-1]).mean()) < 4 / n**0.5
    assert abs((a[:, 1:] * a[:, :-1]).mean()) < 4 / n**0.5
    other = wander(Stream.of(6, "wander"), 400, 400, 10.0, 1.0)
    assert abs((a * other).mean()) < 4 / n**0.5
    assert len(np.unique(a)) > 0.99 * n


def test_a_slow_wander_stands_still():
    a, b = (wander(STREAM, 1, 1000, t, 1e12) for t in (0.0, 10.0))
    np.testing.assert_array_equal(a, b)
    moved = wander(STREAM, 1, 1000, 1e4, 1e12) - a
    assert 0 < moved.std() < 2 * (2e-8) ** 0.5


@settings(deadline=None)
@given(st.floats(0, 1e300), st.floats(5e-324, 1e300))
def test_extremes_give_numbers(time, tau):
    x = wander(STREAM, 2, 3, time, tau)
    assert np.abs(x).max() < 7


@pytest.mark.parametrize(
    ("time", "tau"), [(-1.0, 1.0), (math.nan, 1.0), (math.inf, 1.0), (1.0, 0.0), (1.0, math.inf)]
)
def test_refusals(time, tau):
    with pytest.raises(InputError, match="time: found"):
        wander(STREAM, 1, 1, time, tau)
