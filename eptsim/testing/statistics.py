"""Statistics with their standard errors: every limit is a number of them."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from eptsim.testing.check import Measured

Array = npt.NDArray[np.float64]

#: Standard errors that a statistic may be off. The normal law is outside once in 1.7 million times,
#: and no check compares more than a few thousand statistics.
STANDARD_ERRORS = 5.0


def mean_is(what: str, samples: Array, want: Array | float, sigma: Array | float) -> Measured:
    """The mean of ``samples`` (draws, ...) against ``want``, each of standard deviation sigma."""
    error = np.asarray(sigma) / math.sqrt(samples.shape[0])
    off = np.abs(samples.mean(axis=0) - want) / error
    return Measured(f"{what}: mean, standard errors off", float(off.max()), STANDARD_ERRORS)


def variance_is(
    what: str, samples: Array, want: Array | float, kurtosis: float = 3.0, slack: float = 0.0
) -> Measured:
    """The variance of ``samples`` (draws, ...) about their mean, against ``want`` (> 0).

    The standard error of s^2 / sigma^2 is sqrt((kurtosis - 1) / n). ``slack`` is what a law that
    holds only approximately may be off besides, relative.
    """
    n = samples.shape[0]
    off = np.abs(samples.var(axis=0, ddof=1) / np.asarray(want) - 1.0)
    error = math.sqrt((kurtosis - 1.0) / n)
    top = np.maximum(off - slack, 0.0) if slack else off
    return Measured(
        f"{what}: variance, standard errors off", float((top / error).max()), STANDARD_ERRORS
    )


def fraction_is(what: str, hits: int, trials: int, want: float) -> Measured:
    """``hits`` of ``trials`` against the probability ``want``, in binomial standard errors."""
    error = math.sqrt(trials * want * (1.0 - want))
    return Measured(
        f"{what}: count, standard errors off", abs(hits - trials * want) / error, STANDARD_ERRORS
    )


def correlation_is(what: str, a: Array, b: Array, want: float = 0.0) -> Measured:
    """Correlation of two samples of one size against ``want``; standard error (1 - want^2)/sqrt n.

    Exact copies (correlation 1 or -1) are wrong where 0 is wanted, whatever n.
    """
    a, b = a.ravel(), b.ravel()
    with np.errstate(invalid="ignore"):  # constant samples have none: NaN, which is not within
        found = float(np.corrcoef(a, b)[0, 1])
    error = (1.0 - want**2) / math.sqrt(a.size)
    return Measured(
        f"{what}: correlation, standard errors off", abs(found - want) / error, STANDARD_ERRORS
    )


def normal_is(what: str, samples: Array) -> Measured:
    """Largest distance of the distribution of standardised ``samples`` from the normal one.

    Kolmogorov and Smirnov's statistic, times sqrt(n): above 2.5 once in 130,000 times.
    """
    from scipy.stats import norm

    return distribution_is(what, np.asarray(norm.cdf(samples.ravel())))


def distribution_is(what: str, uniforms: Array) -> Measured:
    """Kolmogorov and Smirnov's statistic, times sqrt(n), of samples that should be uniform."""
    x = np.sort(uniforms.ravel())
    n = x.size
    steps = np.arange(n) / n
    distance = max(float((x - steps).max()), float((steps + 1.0 / n - x).max()))
    return Measured(f"{what}: Kolmogorov-Smirnov distance x sqrt(n)", distance * math.sqrt(n), 2.5)
