"""Each statistic lets true samples pass and finds a flaw of a few standard errors."""

import numpy as np

from eptsim.testing.statistics import (
    correlation_is,
    distribution_is,
    fraction_is,
    mean_is,
    normal_is,
    variance_is,
)

N = 10_000
X = np.random.default_rng(0).standard_normal((N, 20))


def test_mean():
    assert mean_is("x", X, 0.0, 1.0).within
    assert not mean_is("x", X + 0.08, 0.0, 1.0).within
    assert not mean_is("x", X, 0.08, 1.0).within
    assert not mean_is("x", np.where(X > 9, X, np.nan), 0.0, 1.0).within


def test_variance():
    assert variance_is("x", X, 1.0).within
    assert not variance_is("x", 1.05 * X, 1.0).within
    assert not variance_is("x", 0.95 * X, 1.0).within
    assert variance_is("x", 1.05 * X, 1.0, slack=0.1).within
    assert not variance_is("x", 0 * X, 1.0).within


def test_fraction():
    assert fraction_is("x", 1000, N, 0.1).within
    assert not fraction_is("x", 1200, N, 0.1).within


def test_correlation():
    a, b = X[:, 0], X[:, 1]
    assert correlation_is("x", a, b).within
    assert not correlation_is("x", a, b + 0.1 * a).within
    assert correlation_is("x", a, (a + b) / 2**0.5, 0.5**0.5).within
    assert not correlation_is("x", a, a).within


def test_distributions():
    assert normal_is("x", X).within
    assert not normal_is("x", np.random.default_rng(0).uniform(-(3**0.5), 3**0.5, N)).within
    uniform = np.random.default_rng(1).uniform(size=N)
    assert distribution_is("x", uniform).within
    assert not distribution_is("x", uniform**1.1).within


def test_constant_samples_have_no_correlation_and_say_so_without_a_warning(recwarn):
    assert not correlation_is("x", np.ones(5), X[:5, 0]).within
    assert list(recwarn) == []
