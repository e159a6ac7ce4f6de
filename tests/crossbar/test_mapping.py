"""From weights to cells and back: exact where nothing is wrong, one draw per cell where it is."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from scipy import stats

from eptsim.base.streams import Stream
from eptsim.crossbar.derived import Derived, content_of, derive, perfect_content
from eptsim.crossbar.mapping import MAPPINGS, program
from eptsim.crossbar.scaling import Tiling

G_MIN, G_MAX = 1e-6, 2.1e-5
CELL = {"cell.g_min_s": G_MIN, "cell.g_max_s": G_MAX}
W = np.random.default_rng(0).normal(size=(40, 60))
BIG = np.random.default_rng(1).uniform(-1, 1, size=(500, 800))


@dataclass
class Held:
    """A programmed matrix, seen as its weights over the largest one."""

    weight: np.ndarray
    scale: float
    derived: Derived | None


def stored(w, card, seed=0, tile=None):
    card = card if tile is None else card.override({"array.columns": tile})
    tiling = Tiling.of(w.shape, card.array)
    done = program(w, card, Stream.of(seed, "a", "program"), tiling)
    target = torch.from_numpy(done.target)
    content = content_of(done, target, card) or perfect_content(target, card, tiling)
    derived = derive(content, card, tiling, Stream.of(seed, "a", "flicker"), exact=True)
    if done.devices_s is None:
        np.testing.assert_allclose(derived.weights, target, atol=1e-13)
    return Held(derived.weights[0].numpy(), done.scales.scale, derived)


@pytest.mark.parametrize("mapping", MAPPINGS)
@pytest.mark.parametrize("g_min", [0.0, G_MIN, 1.9e-5])
def test_perfect_cells_hold_the_weight(ideal, mapping, g_min):
    card = ideal.override({**CELL, "cell.g_min_s": g_min, "array.mapping": mapping})
    done = stored(W, card, tile=7)
    np.testing.assert_allclose(done.weight * done.scale, W, rtol=0, atol=1e-13)
    assert done.scale == np.abs(W).max()


@pytest.mark.parametrize("mapping", MAPPINGS)
def test_levels_quantise_every_cell(ideal, mapping):
    card = ideal.override({**CELL, "array.mapping": mapping, "cell.levels": 5})
    got = stored(W, card).weight
    grid = {"differential": np.arange(-4, 5) / 4, "offset": np.arange(-2, 3) / 2}
    grid["reference_column"] = grid["offset"]  # five levels have a middle one
    distance = np.abs(got[..., None] - grid[mapping]).min(axis=-1)
    assert distance.max() < 1e-12
    step = grid[mapping][1] - grid[mapping][0]
    assert np.abs(got - W / np.abs(W).max()).max() <= step / 2 + 1e-12


@pytest.mark.parametrize("mapping", MAPPINGS)
def test_programming_error_is_one_draw_per_cell_not_per_level(ideal, mapping):
    """BIG takes two levels only, yet no two cells are the same."""
    card = ideal.override(
        {**CELL, "array.mapping": mapping, "cell.levels": 2, "cell.programming.sigma": 0.01}
    )
    w = np.sign(BIG)
    got = stored(w, card).weight
    assert len(np.unique(got)) > 0.99 * got.size
    span, cells = (G_MAX - G_MIN) / G_MAX, {"differential": 1.0, "offset": 2.0}
    cells["reference_column"] = 2.0
    error = got - w
    if mapping == "reference_column":  # shared along the outputs of a tile
        shared = error.mean(axis=0, keepdims=True)
        assert abs(shared.std() - 0.01 * 2 / span) < 4 * 0.01 * 2 / span / (2 * 800) ** 0.5
        error = error - shared
    # a pair holds two errors, one of them from a cell at g_min
    sigma = 0.01 * cells[mapping] / span * (2**0.5 if mapping == "differential" else 1.0)
    assert abs(error.std() / sigma - 1) < 4 / (2 * error.size) ** 0.5 + 1.5 / 500
    assert stats.kstest((error / error.std()).ravel()[:20000], "norm").pvalue > 1e-4


def test_every_cell_seed_and_device_has_its_own_error(ideal):
    card = ideal.override({**CELL, "cell.programming.sigma": 0.01})
    a, b = (stored(BIG, card, seed).weight - BIG / np.abs(BIG).max() for seed in (0, 1))
    n = a.size
    for one, other in ((a, b), (a[1:], a[:-1]), (a[:, 1:], a[:, :-1])):
        assert abs(np.corrcoef(one.ravel(), other.ravel())[0, 1]) < 4.5 / n**0.5
    # were both devices of a pair to share a draw, it would cancel
    assert a.std() > 0.01


@pytest.mark.parametrize(("low", "high"), [(0.02, 0.0), (0.0, 0.05), (0.1, 0.2), (0.3, 0.7)])
def test_stuck_fractions(ideal, low, high):
    changes = {"array.mapping": "offset", "cell.stuck.low": low, "cell.stuck.high": high}
    card = ideal.override({**CELL, **changes})
    got = stored(0.5 * BIG, card).weight
    n = got.size
    for fraction, value in ((low, -1.0), (high, 1.0)):
        found = np.isclose(got, value, atol=1e-9).mean()
        standard_error = (fraction * (1 - fraction) / n) ** 0.5
        assert abs(found - fraction) < 4 * standard_error + 1e-4  # BIG comes close to 1 itself


def test_stuck_cells_of_a_pair(ideal):
    changes = {"cell.stuck.low": 0.1, "cell.stuck.high": 0.2}
    got = stored(np.full((500, 800), 1.0), ideal.override({**CELL, **changes})).weight
    # g+ aims at g_max, g- at g_min: the pair reads 1, 0 or -1
    plus = {1.0: 0.9, 0.0: 0.1}  # not stuck low
    minus = {0.0: 0.8, 1.0: 0.2}  # not stuck high
    for value in (-1.0, 0.0, 1.0):
        want = sum(p * q for a, p in plus.items() for b, q in minus.items() if a - b == value)
        found = np.isclose(got, value, atol=1e-9).mean()
        assert abs(found - want) < 4 * (want * (1 - want) / got.size) ** 0.5


@pytest.mark.parametrize("mapping", MAPPINGS)
@pytest.mark.parametrize("which", ["low", "high"])
def test_all_cells_stuck_is_a_finite_array(ideal, mapping, which):
    card = ideal.override({**CELL, "array.mapping": mapping, f"cell.stuck.{which}": 1.0})
    got = stored(W, card).weight
    want = {"low": -1.0, "high": 1.0}[which] if mapping == "offset" else 0.0
    np.testing.assert_allclose(got, want, atol=1e-12)


def test_drift_follows_the_law_and_spares_stuck_cells(ideal):
    drift = {"cell.drift.nu": 0.05, "cell.drift.time_s": 2000.0, "cell.drift.t0_s": 20.0}
    card = ideal.override({**CELL, "cell.g_min_s": 0.0, **drift})
    done = stored(W, card)
    np.testing.assert_allclose(done.weight * done.scale, W * 100**-0.05, rtol=1e-12)
    one_sided = card.override({"array.mapping": "offset", "cell.stuck.high": 0.3})
    assert abs(np.isclose(stored(BIG, one_sided).weight, 1.0).mean() - 0.3) < 0.01


def test_drift_exponents_scatter_over_the_cells(ideal):
    changes = {"cell.drift.nu": 0.1, "cell.drift.nu_sigma": 0.01, "cell.drift.time_s": 2000.0}
    card = ideal.override({**CELL, "cell.g_min_s": 0.0, **changes})
    done = stored(np.abs(BIG), card)
    nu = -np.log(done.weight / (np.abs(BIG) / done.scale)) / np.log(100)
    n = nu.size
    assert abs(nu.mean() - 0.1) < 4 * 0.01 / n**0.5
    assert abs(nu.std() - 0.01) < 4 * 0.01 / (2 * n) ** 0.5


def test_noise_variance_of_one_weight(ideal):
    noise = {"cell.read_noise.law": "constant", "cell.read_noise.sigma": 0.03}
    unit = (0.03 * G_MAX / (G_MAX - G_MIN)) ** 2
    for mapping, cells in (("differential", 2), ("offset", 4), ("reference_column", 4)):
        card = ideal.override({**CELL, **noise, "array.mapping": mapping})
        assert stored(W, card).derived.noise.uniform == pytest.approx(cells * unit, rel=1e-12)
    card = ideal.override({**CELL, **noise, "cell.read_noise.law": "proportional"})
    w = W / np.abs(W).max()
    g_plus, g_minus = (G_MIN + (G_MAX - G_MIN) * np.maximum(s * w, 0) for s in (1, -1))
    want = 0.03**2 * (g_plus**2 + g_minus**2) / (G_MAX - G_MIN) ** 2
    found, factor = stored(W, card).derived.noise.variances(forward=False)
    np.testing.assert_allclose(found[0] * factor, want, rtol=1e-12)


def test_reference_columns_belong_to_tiles(ideal):
    changes = {"array.mapping": "reference_column", "cell.programming.sigma": 0.01}
    noise = {"cell.read_noise.law": "proportional", "cell.read_noise.sigma": 0.03}
    card = ideal.override({**CELL, **changes, **noise})
    done = stored(np.zeros((100, 200)), card, tile=25)
    assert done.derived.reference_noise.shape == (1, 4, 200)
    shared = done.weight.reshape(4, 25, 200).mean(axis=1)
    sigma = 2 * 0.01 * G_MAX / (G_MAX - G_MIN)
    want = sigma * (1 + 1 / 25) ** 0.5
    assert abs(shared.std() - want) < 4 * want / (2 * 800) ** 0.5
    assert abs(np.corrcoef(shared)[0, 1]) < 4 / 200**0.5


def test_an_all_zero_matrix_has_scale_one(ideal):
    done = stored(np.zeros((3, 4)), ideal)
    assert done.scale == 1.0
    np.testing.assert_array_equal(done.weight, 0.0)
