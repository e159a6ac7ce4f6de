"""1/f noise: its structure function and spectrum, and that it is a pure function of time."""

import math

import numpy as np
import pytest
import scipy.signal
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad

from eptsim.base.errors import InputError
from eptsim.base.streams import Stream
from eptsim.cell.flicker import Mode, fluctuation, modes

STREAM = Stream.of(3, "flicker")


def correlation(h):
    """Of one fluctuator at the lag of h periods, averaged over the phase, by quadrature."""
    if h >= 2:
        return 0.0
    start = max(1 - h, 0)
    next_one = quad(lambda w: math.sqrt(w * max(2 - h - w, 0)), start, min(2 - h, 1))[0]
    if h >= 1:
        return next_one
    return (
        next_one
        + quad(lambda w: math.sqrt((1 - w) * max(1 - w - h, 0)) + math.sqrt(w * (w + h)), 0, 1 - h)[
            0
        ]
    )


def structure(dt, parts):
    return sum(2 * mode.variance * (1 - correlation(dt / mode.period_s)) for mode in parts)


@pytest.mark.parametrize("span", [1.5, 4.0, 5.0, 100.0, 1e9, 1e24])
def test_modes_share_the_variance_of_a_1_over_f_band(span):
    parts = modes(1e-6, 1e-6 * span)
    assert math.isclose(sum(mode.variance for mode in parts), math.log(span), rel_tol=1e-9)
    periods = np.array([mode.period_s for mode in parts])
    steps = np.log(periods[1:] / periods[:-1])
    np.testing.assert_allclose(steps, parts[0].variance, rtol=1e-9)
    assert parts[0].variance <= math.log(4) * (1 + 1e-9)


@pytest.mark.parametrize("span", [100.0, 300.0, 1e9])
def test_structure_function_is_logarithmic(span):
    parts = modes(1e-6, 1e-6 * span)
    lags = np.geomspace(3e-6, 1e-6 * span / 3, 150)
    error = np.array([structure(dt, parts) - 2 * math.log(dt / 1e-6) for dt in lags])
    assert np.abs(error).max() < 0.16
    assert abs(error.mean()) < 0.05
    assert structure(1e-6 * span * 10, parts) == pytest.approx(2 * math.log(span), rel=1e-9)
    # the growth per e-fold far from the ends: whole ripples average out
    middle = lags[(lags > 5e-6) & (lags < 1e-6 * span / 10)]
    if middle[-1] > 100 * middle[0]:
        slope = np.polyfit(np.log(middle), [structure(dt, parts) for dt in middle], 1)[0]
        assert abs(slope - 2) < 0.01


def test_equal_periods_fluctuate_not_at_all():
    assert modes(1.0, 1.0) == ()
    np.testing.assert_array_equal(fluctuation(STREAM, 2, 3, 1.0, ()), np.zeros((2, 3)))


@pytest.mark.parametrize("lag", [0.1, 1.0, 3.0, 30.0, 300.0, 3e3, 1e5])
@pytest.mark.parametrize("time", [0.0, 12345.678])
def test_cells_have_that_structure_function_at_any_time(lag, time):
    parts = modes(1.0, 1e4)
    a, b = (fluctuation(STREAM, 2048, 64, t, parts) for t in (time, time + lag))
    row = ((a.astype(np.float64) - b) ** 2).mean(axis=1)
    # rows have phases of their own, so their means are independent: the standard error
    standard_error = row.std() / row.size**0.5
    assert abs(row.mean() - structure(lag, parts)) < 4.5 * standard_error


@pytest.mark.parametrize("time", [0.0, 0.37, 1e5, 1e12])
def test_mean_variance_and_shape_do_not_change_with_time(time):
    parts = modes(0.01, 1e3)
    x = fluctuation(STREAM, 512, 512, time, parts).astype(np.float64)
    variance = sum(mode.variance for mode in parts)
    z = x.ravel() / variance**0.5  # standard errors of n = 262,144 normals
    assert abs(z.mean()) < 4 / z.size**0.5
    assert abs(z.var() - 1) < 4 * (2 / z.size) ** 0.5
    assert abs((z**4).mean() - 3) < 4 * (96 / z.size) ** 0.5


def test_spectrum_is_1_over_f():
    parts, number = modes(0.5, 1e5), 8192
    series = np.stack(
        [fluctuation(STREAM, 32, 16, float(t), parts).ravel() for t in range(number)]
    ).astype(np.float64)
    frequency, power = scipy.signal.periodogram(series, window="hann", axis=0)
    band = (frequency > 5 / number) & (frequency < 0.03)
    f, p = frequency[band], power.mean(axis=1)[band]
    # Each of the 240 powers is a mean of 512 exponentials, neighbours in three sharing a window:
    # relative standard error 0.044, so 0.006 of the slope. The ripple of the spectrum is 0.13.
    slope = np.polyfit(np.log(f), np.log(p), 1)[0]
    assert abs(slope + 1) < 0.08
    # variance 1 per e-fold of frequency: f S(f) = 1 in the one-sided spectrum
    assert abs(np.average(f * p, weights=1 / f) - 1) < 0.05
    for low in np.geomspace(f[0], 0.015, 8):
        octave = (f >= low) & (f <= 2 * low)
        assert abs(np.average((f * p)[octave], weights=1 / f[octave]) - 1) < 0.17


def test_any_order_any_split_the_same_bits():
    parts = modes(1e-3, 10.0)
    whole = fluctuation(STREAM, 40, 9, 3.21, parts, 1)
    fluctuation(STREAM, 40, 9, 99.0, parts, 1)
    np.testing.assert_array_equal(fluctuation(STREAM, 40, 9, 3.21, parts, 1), whole)
    pieces = [fluctuation(STREAM, 8, 9, 3.21, parts, 1, first_row=r) for r in range(0, 40, 8)]
    np.testing.assert_array_equal(np.concatenate(pieces), whole)


def test_far_reads_planes_streams_and_modes_are_independent():
    parts = modes(1e-3, 10.0)
    base = fluctuation(STREAM, 512, 512, 5.0, parts).ravel().astype(np.float64)
    for other in (
        fluctuation(STREAM, 512, 512, 5.0 + 30.0, parts),
        fluctuation(STREAM, 512, 512, 5.0, parts, 1),
        fluctuation(Stream.of(4, "flicker"), 512, 512, 5.0, parts),
        fluctuation(STREAM, 512, 512, 5.0, parts, first_row=512),
    ):
        correlated = np.corrcoef(base, other.ravel())[0, 1]
        assert abs(correlated) < 4 / base.size**0.5


def test_it_does_not_repeat_when_the_counter_of_periods_overflows():
    one = (Mode(1.0, 1.0),)
    a = fluctuation(STREAM, 256, 256, 5.25, one).ravel()
    for turns in (1, 2, 5):
        b = fluctuation(STREAM, 256, 256, 5.25 + turns * 2.0**32, one).ravel()
        assert abs(np.corrcoef(a, b)[0, 1]) < 4 / a.size**0.5
    # and the period across the overflow is a period like any other
    times = 2.0**32 + np.arange(-3, 4) * 0.25
    x = np.stack([fluctuation(STREAM, 256, 64, t, one).ravel() for t in times])
    steps = ((x[1:] - x[:-1]).reshape(6, 256, 64) ** 2).mean(axis=2)
    error = np.abs(steps.mean(axis=1) - 2 * (1 - correlation(0.25)))
    assert (error < 4.5 * steps.std(axis=1) / 16).all()


@settings(deadline=None)
@given(st.floats(0, 1e300), st.floats(1e-300, 1e300), st.floats(1e-300, 1e300))
def test_extremes_give_numbers(time, one, other):
    fast, slow = min(one, other), max(one, other)
    x = fluctuation(STREAM, 3, 5, time, modes(fast, slow))
    assert np.isfinite(x).all()
    assert np.abs(x).max() <= 7 * math.sqrt(math.log(slow) - math.log(fast) + 1e-12)


@pytest.mark.parametrize("periods", [(0.0, 1.0), (2.0, 1.0), (1.0, math.inf), (math.nan, 1.0)])
def test_periods_that_cannot_be(periods):
    with pytest.raises(InputError, match="flicker periods"):
        modes(*periods)


@pytest.mark.parametrize("time", [-1.0, math.nan, math.inf])
def test_times_that_cannot_be(time):
    with pytest.raises(InputError, match="flicker time"):
        fluctuation(STREAM, 2, 2, time, modes(1.0, 10.0))
