"""The programming record against direct counts."""

import numpy as np
import pytest
import torch

from eptsim.crossbar.crossbar import Crossbar

MAPPINGS = ("differential", "reference_column", "offset")
W = torch.randn(30, 44, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
TILES = {"array.rows": 20, "array.columns": 8}
CELLS = {"differential": 2 * 30 * 44, "offset": 30 * 44, "reference_column": 30 * 44 + 4 * 44}


def record(ideal, changes, w=W):
    array = Crossbar(w, ideal.override({**TILES, **changes}))
    return array.record, array


@pytest.mark.parametrize("mapping", MAPPINGS)
def test_an_ideal_array_has_no_error(ideal, mapping):
    found, _ = record(ideal, {"array.mapping": mapping})
    assert found.error < 1e-15
    assert found.largest_error < 1e-15
    assert (found.clipped, found.unverified, found.stuck) == (0.0, 0, 0)
    assert found.drift_factor == 1.0


@pytest.mark.parametrize("mapping", MAPPINGS)
@pytest.mark.parametrize("slices", [1, 3])
def test_errors_and_counts(ideal, mapping, slices):
    changes = {
        "array.mapping": mapping, "array.slices": slices, "cell.levels": 4,
        "cell.g_min_s": 4e-6, "cell.programming.sigma": 0.05,
        "cell.programming.verify_tolerance": 0.06,
        "cell.programming.verify_rounds": 2, "cell.stuck.low": 0.05, "array.clip_percentile": 98.0,
    }
    found, array = record(ideal, changes)
    error = (array.weight() - W).numpy()
    assert found.error == pytest.approx(np.linalg.norm(error) / np.linalg.norm(W), rel=1e-12)
    largest = np.abs(error).max() / W.abs().max().item()
    assert found.largest_error == pytest.approx(largest, rel=1e-12)
    top = np.quantile(W.abs(), 0.98)
    assert found.clipped == (W.abs().numpy() > top).mean()
    assert found.cells == slices * CELLS[mapping]
    p = 0.2301  # of |normal| > 1.2
    assert found.unverified == pytest.approx(p**2 * found.cells, rel=0.3)
    assert found.stuck == pytest.approx(0.05 * found.cells, rel=0.4)


@pytest.mark.parametrize("mapping", MAPPINGS)
def test_verify_bounds_all_but_the_reported_cells(ideal, mapping):
    """Against the conductances wanted, no more cells are off than failed or are stuck."""
    levels = 9
    changes = {
        "array.mapping": mapping, "cell.levels": levels, "cell.programming.sigma": 0.05,
        "cell.programming.verify_tolerance": 0.02, "cell.stuck.random": 0.05,
        "cell.g_min_s": 1e-6, "cell.spread.g_max": 0.02,
    }
    found, array = record(ideal, changes)
    held, w = array.conductances(), W.numpy() / W.abs().max().item()
    span, step = 9e-6, 9e-6 / (levels - 1)
    if mapping == "differential":
        want = np.stack([np.maximum(w, 0), np.maximum(-w, 0)])[:, None]
    else:
        want = (w[None, None] + 1) / 2
    off = np.abs(held.cells - 1e-6 - step * np.round(want * span / step)) > 0.02e-5 * (1 + 1e-9)
    count = off.sum()
    if held.reference is not None:
        count += (np.abs(held.reference - 5.5e-6) > 0.02e-5 * (1 + 1e-9)).sum()
    assert 0 < found.unverified <= count <= found.unverified + found.stuck
    # a cell is off with 0.05 for being stuck, less those that are stuck within the tolerance
    assert count > 0.9 * found.unverified + 0.8 * found.stuck


@pytest.mark.parametrize("mapping", MAPPINGS)
@pytest.mark.parametrize("which", ["low", "high", "random"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_all_cells_stuck_is_reported(ideal, mapping, which, dtype):
    changes = {"array.mapping": mapping, f"cell.stuck.{which}": 1.0, "forward.adc_bits": 6}
    found, array = record(ideal, changes, W.to(dtype))
    assert found.stuck == found.cells == CELLS[mapping]
    assert np.isfinite([found.error, found.largest_error]).all()
    assert found.error > 0.9
    x, d = torch.ones(3, 44, dtype=dtype), torch.ones(3, 30, dtype=dtype)
    assert torch.isfinite(array.read(x)).all()
    assert torch.isfinite(array.read_transpose(d)).all()
    if which != "random" and mapping != "offset":
        assert not array.weight().any()


def test_an_all_zero_target(ideal):
    zero = torch.zeros(4, 5)
    found, _ = record(ideal, {}, zero)
    assert (found.error, found.largest_error) == (0.0, 0.0)
    found, array = record(ideal, {"cell.programming.sigma": 0.1}, zero)
    assert found.error == float("inf")
    assert found.largest_error == pytest.approx(array.weight().abs().max().item())


def test_the_drift_factor_is_the_lost_sum(ideal):
    drift = {"cell.drift.nu": 0.05, "cell.drift.time_s": 2000.0}
    found, _ = record(ideal, {**drift, "cell.drift.compensation": "reference_read"})
    assert found.drift_factor == pytest.approx(100**0.05, rel=1e-12)
    assert record(ideal, drift)[0].drift_factor == 1.0


@pytest.mark.parametrize("mapping", MAPPINGS)
@pytest.mark.parametrize("loss", ["drift", "spread drift", "retention"])
def test_compensation_restores_the_mean_gain(ideal, mapping, loss):
    """The slope of stored over wanted weight, averaged over the cells, is 1 again.

    The digital middle of mapping offset has not drifted: without compensation its weights keep a
    common shift, with it they do not; a pair and a reference column are free of it.
    """
    changes = {
        "drift": {"cell.drift.nu": 0.05},
        "spread drift": {"cell.drift.nu": 0.05, "cell.drift.nu_sigma": 0.01},
        "retention": {"cell.retention.tau_s": 1e4},
    }[loss]
    g = torch.Generator().manual_seed(3)
    w = torch.rand(400, 500, generator=g, dtype=torch.float64) * 2 - 1
    slopes = {}
    for how in ("none", "reference_read"):
        card = {**changes, "array.mapping": mapping, "cell.drift.compensation": how}
        _, array = record(ideal, card, w)
        stored = array.weight()
        centred = w - w.mean()
        slopes[how] = float((centred * stored).sum() / (centred * w).sum())
        if mapping == "offset":
            shift = float((stored - slopes[how] * w).mean())
            lost = slopes["none"] - 1.0 if how == "none" else 0.0
            assert shift == pytest.approx(lost, abs=2e-3)
    assert slopes["none"] < 0.8
    # 2e5 exponents of standard deviation 0.01 ln(180): the mean of exp(-nu ln 180) has the
    # relative standard error 0.05 / sqrt(2e5), and gain weighs the cells otherwise than the sum
    assert slopes["reference_read"] == pytest.approx(1.0, abs=5 * 0.052 / 2e5**0.5 + 1e-12)
