"""Statistics of the read noise, each with its standard error."""

import numpy as np
import pytest
import torch
from scipy import stats

from eptsim.crossbar.crossbar import Crossbar
from eptsim.crossbar.stages import Position

N = 40_000
CELL = {"cell.g_min_s": 1e-6, "cell.g_max_s": 2.1e-5}
W = torch.randn(5, 7, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
X = torch.tensor([0.5, -1.0, 0.3, 0.0, 0.8, -0.2, 0.9], dtype=torch.float64)
D = torch.tensor([0.4, 1.0, -0.7, 0.1, 0.6], dtype=torch.float64)
SPAN, MAX, SIGMA = 2e-5, 2.1e-5, 0.05
SCALE = W.abs().max().item()


def noisy(ideal, law, mapping="differential", changes=None):
    noise = {"cell.read_noise.law": law, "cell.read_noise.sigma": SIGMA, "array.mapping": mapping}
    return ideal.override({**CELL, **noise, **(changes or {})})


def errors(array, direction, n=N, position=None):
    """n reads of one vector (whose largest entry is 1), less the exact result, in units of W."""
    if direction == "forward":
        return (array.read(X.expand(n, 7), position=position) - W @ X).numpy() / SCALE
    return (array.read_transpose(D.expand(n, 5), position=position) - D @ W).numpy() / SCALE


def assert_variance(samples, want):
    n = samples.shape[0]
    np.testing.assert_array_less(np.abs(samples.mean(axis=0)), 4.5 * np.sqrt(want / n))
    np.testing.assert_array_less(np.abs(samples.var(axis=0) / want - 1), 4.5 * (2 / n) ** 0.5)


def assert_independent(a, b):
    a, b = a.ravel(), b.ravel()
    assert abs(np.corrcoef(a, b)[0, 1]) < 4.5 / a.size**0.5


def cell_variance(law, mapping):
    """(out, in): variance of one weight in units of the largest, and of the reference cell."""
    w = W.numpy() / SCALE
    if mapping == "differential":
        devices, per_s = [1e-6 + SPAN * np.maximum(s * w, 0) for s in (1, -1)], 1 / SPAN
    else:
        devices, per_s = [1.1e-5 + SPAN * w / 2], 2 / SPAN
    sigma = [np.full_like(g, SIGMA * MAX) if law == "constant" else SIGMA * g for g in devices]
    middle = SIGMA * (MAX if law == "constant" else 1.1e-5)
    return sum((s * per_s) ** 2 for s in sigma), (middle * per_s) ** 2


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("law", ["constant", "proportional"])
@pytest.mark.parametrize("mapping", ["differential", "offset", "reference_column"])
def test_the_sum_of_the_cells_noise(ideal, law, mapping, fused):
    """Variance of a line: sum_j u_j^2 sigma_j^2, plus that of the reference cells."""
    array = Crossbar(W, noisy(ideal, law, mapping), seed=3, fused=fused)
    cells, middle = cell_variance(law, mapping)
    x, d = X.numpy(), D.numpy()
    forward, transpose = cells @ x**2, d**2 @ cells
    if mapping == "reference_column":
        forward = forward + middle * (x**2).sum()
        transpose = transpose + middle * d.sum() ** 2
    assert_variance(errors(array, "forward"), forward)
    assert_variance(errors(array, "transpose"), transpose)


def test_reference_columns_correlate_the_outputs_of_a_tile(ideal):
    """Forward, the reference's noise is common to a tile's outputs; other tiles have their own."""
    card = noisy(ideal, "constant", "reference_column", {"array.columns": 3})
    got = np.corrcoef(errors(Crossbar(W, card), "forward").T)
    same_tile = np.kron(np.eye(2), np.ones((3, 3)))[:5, :5]
    want = 0.5 * same_tile + 0.5 * np.eye(5)  # half the variance is shared
    assert np.abs(got - want).max() < 4.5 / N**0.5
    transposed = np.corrcoef(errors(Crossbar(W, card), "transpose").T)
    assert np.abs(transposed - np.eye(7)).max() < 4.5 / N**0.5


@pytest.mark.parametrize("mapping", ["differential", "offset"])
def test_without_a_reference_column_lines_are_independent(ideal, mapping):
    array = Crossbar(W, noisy(ideal, "proportional", mapping))
    assert np.abs(np.corrcoef(errors(array, "forward").T) - np.eye(5)).max() < 4.5 / N**0.5


@pytest.mark.parametrize("full", [None, 2.0])
def test_line_noise_is_a_fraction_of_the_output_range(ideal, full):
    card = ideal.override({"forward.line_noise": 0.02, "forward.output_range": None})
    if full is not None:
        card = card.override({"forward.output_range": full})
    w, x = torch.zeros(40, 3), torch.zeros(5000, 3)
    w[0, 0] = 1.0
    y = Crossbar(w, card).read(x).double().numpy()
    want = (0.02 * (full or 12.0)) ** 2
    assert_variance(y, np.full(40, want))
    assert stats.kstest(y[:, 7] / want**0.5, "norm").pvalue > 1e-4


def test_line_noise_scales_with_range_and_largest_weight(ideal):
    card = ideal.override({"forward.line_noise": 0.01})
    array = Crossbar(4.0 * torch.eye(3, dtype=torch.float64), card)
    array.hold_range("forward", 5.0)
    y = array.read(torch.zeros(N, 3, dtype=torch.float64), range_policy="held")
    assert_variance(y.numpy(), np.full(3, (0.01 * 12 * 4 * 5) ** 2))


def test_tiles_add_their_noise(ideal):
    card = ideal.override({"forward.line_noise": 0.01, "array.rows": 2})
    assert_variance(errors(Crossbar(W, card), "forward"), np.full(5, 4 * 0.12**2))


def test_reads_lines_directions_arrays_and_seeds_are_independent(ideal):
    card = ideal.override({"forward.line_noise": 0.01, "transpose.line_noise": 0.01})
    array = Crossbar(W, card, seed=1, path="a")
    base = errors(array, "forward")
    assert_independent(base, errors(array, "forward"))  # the next reads
    assert_independent(base[:-1], base[1:])
    assert_independent(base[:, 0], base[:, 1])
    assert_independent(base, errors(array, "transpose")[:, :5])
    assert_independent(base, errors(Crossbar(W, card, seed=1, path="b"), "forward"))
    assert_independent(base, errors(Crossbar(W, card, seed=2, path="a"), "forward"))
    assert_independent(base, errors(array, "forward", position=Position(1, 0)))
    again = errors(Crossbar(W, card, seed=1, path="a"), "forward")
    np.testing.assert_array_equal(base, again)


def test_tiles_are_independent(ideal):
    """A matrix of two equal tiles, driven with opposite signs, shows their difference."""
    card = ideal.override({"forward.line_noise": 0.01, "array.rows": 1})
    array = Crossbar(torch.ones(3, 2, dtype=torch.float64), card)
    y = array.read(torch.tensor([1.0, -1.0], dtype=torch.float64).expand(N, 2)).numpy()
    assert_variance(y, np.full(3, 2 * 0.12**2))


def test_the_mean_of_a_million_reads(ideal):
    """A table of normals that repeats would leave a bias; every draw must be new."""
    card = ideal.override({"forward.line_noise": 0.01})
    n = 1_000_000
    array = Crossbar(torch.tensor([[1.0], [0.5]]), card)
    y = (array.read(torch.ones(n, 1)).double() - torch.tensor([1.0, 0.5])).numpy()
    assert (np.abs(y.mean(axis=0)) < 4 * 0.12 / n**0.5).all()
    assert (np.abs(y.std(axis=0) / 0.12 - 1) < 4 / (2 * n) ** 0.5).all()
    for lag in (1, 4, 16, 32768, 65536):
        assert_independent(y[lag:, 0], y[:-lag, 0])
    assert np.abs(y).max() > 4.5 * 0.12  # the tails are there


def test_noise_is_added_before_the_gain(ideal):
    card = ideal.override({"forward.line_noise": 0.01, "forward.gain": 0.5})
    array = Crossbar(W, card)
    gain = array.stage("forward").gain[0].numpy()
    samples = array.read(X.expand(N, 7)).numpy() / SCALE - gain * (W @ X).numpy() / SCALE
    assert_variance(samples, (0.12 * gain) ** 2)
