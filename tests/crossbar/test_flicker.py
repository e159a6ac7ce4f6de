"""1/f noise of an array: one fluctuating matrix, the same for every read at one time."""

import numpy as np
import pytest
import torch

from eptsim.cell.flicker import modes
from eptsim.crossbar.crossbar import Crossbar
from eptsim.crossbar.stages import Position

MAPPINGS = ("differential", "reference_column", "offset")
SIGMA, FASTEST, SLOWEST = 0.01, 1e-5, 1e3
FLICKER = {
    "cell.g_min_s": 1e-6, "cell.g_max_s": 2.1e-5, "cell.flicker.sigma": SIGMA,
    "cell.flicker.fastest_s": FASTEST, "cell.flicker.slowest_s": SLOWEST,
}  # fmt: skip
FLAWS = {
    "cell.programming.sigma": 0.02, "cell.stuck.low": 0.05, "cell.levels": 5, "array.slices": 2,
    "array.scaling": "tile", "array.rows": 7, "array.columns": 5,
}  # fmt: skip


def randn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


W = randn(18, 23)


def matrix(array, time_s, read=0):
    """The array's matrix (out, in) at a time, read by unit vectors."""
    unit = torch.eye(array.shape[1], dtype=array.dtype)
    return array.read(unit, position=Position(read, 0, time_s)).T


@pytest.mark.parametrize("mapping", MAPPINGS)
@pytest.mark.parametrize("fused", [True, False])
def test_reads_at_one_time_share_the_fluctuation_to_the_bit(ideal, mapping, fused):
    card = ideal.override({**FLICKER, **FLAWS, "array.mapping": mapping})
    array = Crossbar(W, card, seed=2, fused=fused)
    first = matrix(array, 0.37)
    assert torch.equal(matrix(array, 0.37, read=5), first)
    assert torch.equal(matrix(Crossbar(W, card, seed=2, fused=fused), 0.37), first)
    later = matrix(array, 0.5)
    assert (later != first).float().mean() > 0.99
    assert torch.equal(matrix(array, 0.37), first)  # in whatever order times are asked for
    assert (matrix(Crossbar(W, card, seed=3, fused=fused), 0.37) != first).any()
    array.time_s = 0.37  # the array's own clock, where a read names no position
    assert torch.equal(array.read(torch.eye(23, dtype=torch.float64)).T, first)


@pytest.mark.parametrize("mapping", MAPPINGS)
@pytest.mark.parametrize("scaling", ["array", "tile", "column"])
@pytest.mark.parametrize("fused", [True, False])
def test_both_directions_see_one_fluctuating_matrix(ideal, mapping, scaling, fused):
    """<d, W(t) x> = <W(t)^T d, x> at every t."""
    card = ideal.override({**FLICKER, **FLAWS, "array.mapping": mapping, "array.scaling": scaling})
    array = Crossbar(W, card, seed=2, fused=fused)
    x, d = randn(8, 23, seed=1), randn(8, 18, seed=2)
    for time_s in (0.0, 1e-4, 0.37, 2e5):
        at = Position(0, 0, time_s)
        left = (d * array.read(x, position=at)).sum(dim=1)
        right = (array.read_transpose(d, position=at) * x).sum(dim=1)
        size = (d.abs() @ array.weight().abs() * x.abs()).sum(dim=1)
        assert ((left - right).abs() <= 2e-14 * size).all()


def test_the_stored_matrix_is_without_it(ideal):
    card = ideal.override({**FLICKER, **FLAWS})
    still = card.override({"cell.flicker.sigma": 0.0})
    assert torch.equal(Crossbar(W, card).weight(), Crossbar(W, still).weight())


def conductance_squares(array):
    """(out, in): summed square of the conductances that make one weight, in its units."""
    held = array.conductances()
    unit = (1.0 if len(held.cells) == 2 else 2.0) / 2e-5 * W_BIG.abs().max().item()
    total = np.square(held.cells).sum(axis=(0, 1))
    if held.reference is not None:
        total = total + np.square(held.reference[0])  # one output line per tile
    return total * unit**2


W_BIG = randn(3000, 12, seed=4)
X = torch.tensor([0.5, -1.0, 0.3, 0.0, 0.8, -0.2, 0.9, 0.7, 0.1, -0.6, 0.2, 1.0]).double()


@pytest.mark.parametrize("mapping", MAPPINGS)
@pytest.mark.parametrize("decade", [2, 4, 6])
def test_reads_a_time_apart_differ_as_the_law_says(ideal, mapping, decade):
    """2 sigma^2 ln(dt / fastest) sum u^2 g^2, over 3000 lines: standard error sqrt(2 / 3000).

    The sum of fluctuators ripples by 0.08 around the logarithm.
    """
    card = ideal.override({**FLICKER, "array.mapping": mapping, "array.columns": 1})
    array = Crossbar(W_BIG, card, seed=7)
    t, dt = 12.345, FASTEST * 10.0**decade
    first, second = (
        array.read(X, position=Position(0, 0, at)).numpy() for at in (t, t + dt)
    )
    lag = np.log(dt / FASTEST)
    want = SIGMA**2 * (conductance_squares(array) @ X.numpy() ** 2)
    found = np.mean((second - first) ** 2 / want) / 2
    assert abs(found / lag - 1) < 4.5 * (2 / 3000) ** 0.5 + 0.08 / lag


@pytest.mark.parametrize("mapping", MAPPINGS)
def test_the_variance_at_one_time_is_that_of_all_fluctuators(ideal, mapping):
    card = ideal.override({**FLICKER, "array.mapping": mapping, "array.columns": 1})
    array = Crossbar(W_BIG, card, seed=8)
    error = array.read(X, position=Position(0, 0, 3.0)).numpy() - (array.weight() @ X).numpy()
    total = sum(mode.variance for mode in modes(FASTEST, SLOWEST))
    assert total == pytest.approx(np.log(SLOWEST / FASTEST), rel=1e-12)
    want = SIGMA**2 * total * (conductance_squares(array) @ X.numpy() ** 2)
    assert abs(np.mean(error**2 / want) - 1) < 4.5 * (2 / 3000) ** 0.5


def test_the_reference_cells_fluctuate_for_all_lines_of_their_tile(ideal):
    """Two lines of a tile share the reference's part of the variance, two tiles nothing."""
    changes = {**FLICKER, "array.mapping": "reference_column", "array.columns": 2}
    array = Crossbar(torch.zeros(4, 4000, dtype=torch.float64), ideal.override(changes), seed=0)
    error = matrix(array, 0.1).numpy()  # (4, 4000), all cells at the middle
    want = np.kron(np.eye(2), np.full((2, 2), 0.5)) + 0.5 * np.eye(4)
    assert np.abs(np.corrcoef(error) - want).max() < 4.5 / 4000**0.5


def test_slices_fluctuate_independently_by_their_digits(ideal):
    """Of K slices the first counts most: the variance is sum_k place_k^2 of one cell's."""
    changes = {**FLICKER, "array.mapping": "offset", "cell.levels": 3, "array.slices": 3}
    array = Crossbar(torch.zeros(30, 800, dtype=torch.float64), ideal.override(changes), seed=1)
    error = (matrix(array, 0.1) - array.weight()).numpy()
    place = np.array([18, 6, 2]) / 26
    g = array.conductances().cells[0, :, 0, 0] * 2 / 2e-5
    want = SIGMA * (np.log(SLOWEST / FASTEST) * (place**2 @ g**2)) ** 0.5
    # fluctuators have one phase per row, which changes no variance
    assert error.std() == pytest.approx(want, rel=4.5 / (2 * error.size) ** 0.5 + 1e-3)
