"""Digital scales and digits: what they are, and what they buy."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from eptsim.crossbar.crossbar import Crossbar
from eptsim.crossbar.scaling import Tiling, digit_weights, scales_of, to_digits

MAPPINGS = ("differential", "reference_column", "offset")
W = np.random.default_rng(0).normal(size=(40, 60))
ONE = np.ones(1)


def matrix(ideal, w, changes):
    return Crossbar(torch.from_numpy(w), ideal.override(changes)).weight().numpy()


def whole(w, rows=None, columns=None):
    cut = [range(0, n, step or n) for n, step in zip(w.shape, (columns, rows), strict=True)]
    return Tiling(
        [slice(a, min(a + cut[0].step, w.shape[0])) for a in cut[0]],
        [slice(a, min(a + cut[1].step, w.shape[1])) for a in cut[1]],
    )


def test_scales_are_the_largest_weights_of_their_groups():
    tiling, size = whole(W, rows=25, columns=16), np.abs(W)
    array = scales_of(W, tiling, "array", None, ONE)
    assert (array.scale, array.tile, array.column) == (size.max(), None, None)
    np.testing.assert_array_equal(array.relative(tiling), 1.0)
    column = scales_of(W, tiling, "column", None, ONE)
    np.testing.assert_allclose(column.scale * column.column, size.max(axis=1), rtol=1e-15)
    tile = scales_of(W, tiling, "tile", None, ONE)
    assert tile.tile.shape == (3, 3)
    for o, lines in enumerate(tiling.out):
        for i, inner in enumerate(tiling.inner):
            found = tile.scale * tile.relative(tiling)[lines, inner]
            np.testing.assert_allclose(found, size[lines, inner].max(), rtol=1e-15)
            assert found[0, 0] == tile.scale * tile.tile[o, i]
    for found in (array, column, tile):
        assert found.relative(tiling).max() == 1.0


@pytest.mark.parametrize("scaling", ["array", "tile", "column"])
def test_zeros_have_the_scale_of_the_largest_group(scaling):
    tiling, w = whole(W, rows=20, columns=10), W.copy()
    w[10:20] = 0.0
    found = scales_of(w, tiling, scaling, None, ONE)
    np.testing.assert_array_equal(np.broadcast_to(found.relative(tiling), w.shape)[10:20], 1.0)
    nothing = scales_of(np.zeros_like(w), tiling, scaling, 50.0, ONE)
    assert nothing.scale == 1.0
    np.testing.assert_array_equal(nothing.relative(tiling), 1.0)


def test_a_percentile_that_is_zero_falls_back_to_the_largest():
    w = np.zeros((4, 30))
    w[:, 0] = [1.0, 2.0, 3.0, 4.0]
    assert scales_of(w, whole(w), "array", 50.0, ONE).scale == 4.0
    column = scales_of(w, whole(w), "column", 50.0, ONE)
    np.testing.assert_array_equal(column.scale * column.column, [1.0, 2.0, 3.0, 4.0])


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 40), st.integers(1, 4), st.integers(0, 99))
def test_digits_are_the_number_that_they_write(levels, slices, seed):
    """Sum of weight x digit is x, rounded to levels^slices values; digits are whole steps."""
    x = np.random.default_rng(seed).uniform(size=50)
    x[:2] = 0.0, 1.0
    digits, place = to_digits(x, slices, levels), digit_weights(slices, levels)
    assert (digits.shape, place.shape) == ((slices, 50), (slices,))
    assert place.sum() == pytest.approx(1.0, rel=1e-14)
    assert (np.diff(place) < 0).all()
    steps = levels**slices - 1
    want = np.round(x * steps) / steps if slices > 1 else x
    np.testing.assert_allclose(place @ digits, want, atol=1e-14)
    if slices > 1:
        np.testing.assert_allclose(digits * (levels - 1), np.rint(digits * (levels - 1)))
    assert digits.min() >= 0.0
    assert digits.max() <= 1.0
    np.testing.assert_array_equal(digits[:, :2], [[0.0, 1.0]] * slices)


def test_without_levels_there_are_no_digits():
    np.testing.assert_array_equal(to_digits(W, 3, None), W[None])
    np.testing.assert_array_equal(digit_weights(3, None), [1.0])


@pytest.mark.parametrize("mapping", MAPPINGS)
@pytest.mark.parametrize(("levels", "slices"), [(2, 8), (4, 3), (5, 3), (16, 2), (3, 5), (65, 1)])
def test_slices_resolve_levels_to_the_power_of_slices(ideal, mapping, levels, slices):
    """Every weight lies on a grid of levels^slices values per polarity, at most half a step off."""
    changes = {"cell.levels": levels, "array.slices": slices, "array.mapping": mapping}
    got = matrix(ideal, W, changes) / np.abs(W).max()
    w = W / np.abs(W).max()
    steps = levels**slices - 1
    step = 1.0 / steps if mapping == "differential" else 2.0 / steps
    position = got if mapping == "differential" else got + 1.0
    np.testing.assert_allclose(position / step, np.rint(position / step), atol=1e-7)
    assert np.abs(got - w).max() <= 0.5 * step * (1 + 1e-9)
    # the error is uniform within a step: its standard deviation is step / sqrt(12)
    inside = np.abs(w) < 1 - step
    error = (got - w)[inside]
    assert error.std() == pytest.approx(step / 12**0.5, rel=4 * (0.2 / error.size) ** 0.5)


@pytest.mark.parametrize("mapping", MAPPINGS)
def test_column_scales_lower_the_programming_error_of_small_rows(ideal, mapping):
    """An error of sigma per cell counts sigma times the scale of its group.

    With rows of sizes s_i the squared error falls by the mean of s_i^2 over the largest one's.
    """
    rng = np.random.default_rng(1)
    size = np.logspace(-2, 0, 60)
    w = rng.uniform(-1, 1, size=(60, 500)) * size[:, None]
    w[:, 0] = size
    changes = {"cell.programming.sigma": 0.01, "array.mapping": mapping, "cell.g_min_s": 1e-6}
    changes["array.columns"] = 1  # a reference cell per weight, so that all errors are independent
    errors = {
        scaling: matrix(ideal, w, {**changes, "array.scaling": scaling}) - w
        for scaling in ("array", "column", "tile")
    }
    cells = {"differential": 2, "reference_column": 8, "offset": 4}[mapping]
    sigma = 0.01 * cells**0.5 * 1e-5 / 9e-6
    tolerance = 4.5 / (2 * 500) ** 0.5
    for row in range(60):
        assert errors["array"][row].std() == pytest.approx(sigma, rel=tolerance)
        assert errors["column"][row].std() == pytest.approx(sigma * size[row], rel=tolerance)
    ratio = np.square(errors["column"]).sum() / np.square(errors["array"]).sum()
    # the sum is led by the largest rows: the relative error of its estimate is that of ~10 rows
    assert ratio == pytest.approx((size**2).mean(), rel=4.5 * (2 / 5000) ** 0.5)
    np.testing.assert_allclose(errors["tile"], errors["column"], atol=1e-12)  # a row per tile


@pytest.mark.parametrize("scaling", ["array", "tile", "column"])
@pytest.mark.parametrize("percentile", [50.0, 90.0, 99.5, 100.0])
def test_a_clip_percentile_clips_the_largest_weights_of_each_group(ideal, scaling, percentile):
    changes = {
        "array.scaling": scaling, "array.clip_percentile": percentile, "array.rows": 30,
        "array.columns": 20,
    }  # fmt: skip
    array = Crossbar(torch.from_numpy(W), ideal.override(changes))
    heights, widths = {"array": (40, 60), "tile": (20, 30), "column": (1, 60)}[scaling]
    want, beyond = W.copy(), 0
    for i in range(0, 40, heights):
        for j in range(0, 60, widths):
            part = W[i : i + heights, j : j + widths]
            top = np.quantile(np.abs(part), percentile / 100)
            want[i : i + heights, j : j + widths] = np.clip(part, -top, top)
            beyond += (np.abs(part) > top).sum()
    np.testing.assert_allclose(array.weight().numpy(), want, rtol=1e-13, atol=1e-13)
    assert array.record.clipped == beyond / W.size
    assert abs(array.record.clipped - (1 - percentile / 100)) <= 1 / (heights * widths)
    error = np.linalg.norm(want - W) / np.linalg.norm(W)
    assert array.record.error == pytest.approx(error, abs=1e-15)


def test_clipping_buys_resolution(ideal):
    """One outlier sets the scale: clipping it away makes the levels' steps as much finer."""
    w = W.copy()
    w[3, 4] = 100.0
    plain = matrix(ideal, w, {"cell.levels": 16})
    clipped = matrix(ideal, w, {"cell.levels": 16, "array.clip_percentile": 99.9})
    rest = np.ones(w.shape, bool)
    rest[3, 4] = False
    top = np.quantile(np.abs(w), 0.999)
    ratio = (clipped - w)[rest].std() / (plain - w)[rest].std()
    assert plain[rest].max() == 0.0  # less than half a step
    assert ratio < top / 15 / 12**0.5 * 1.3
