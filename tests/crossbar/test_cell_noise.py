"""Read noise of the cells: sums over the devices of a weight, and the variance of many reads."""

import numpy as np
import pytest
import torch

from eptsim.base.table import Table
from eptsim.cards.cell_entries import ReadNoise
from eptsim.crossbar.cell_noise import CellNoise, variance
from eptsim.crossbar.crossbar import Crossbar
from eptsim.crossbar.stages import Position

MAPPINGS = ("differential", "reference_column", "offset")
BOTH = ("forward", "transpose")
N = 20_000
SIGMA, LOW, HIGH = 0.05, 1e-6, 2.1e-5
TABLE = Table((0.0, 0.4 * HIGH, HIGH), (0.02 * HIGH, 0.07 * HIGH, 0.03 * HIGH))
LAWS = {
    "constant": lambda g: np.full_like(g, SIGMA * HIGH),
    "proportional": lambda g: SIGMA * g,
    "sqrt": lambda g: SIGMA * np.sqrt(g * HIGH),
    "table": lambda g: np.interp(g, TABLE.x, TABLE.y),
}
W = torch.randn(6, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
X = torch.tensor([0.5, -1.0, 0.3, 0.0, 0.8, -0.2, 0.9, 0.7], dtype=torch.float64)
D = torch.tensor([0.4, 1.0, -0.7, 0.1, 0.6, -0.3], dtype=torch.float64)


def noisy(ideal, law, changes):
    entry = {"cell.read_noise.table": TABLE} if law == "table" else {"cell.read_noise.sigma": SIGMA}
    values = {"cell.g_min_s": LOW, "cell.g_max_s": HIGH, "cell.read_noise.law": law}
    return ideal.override({**values, **entry, **changes})


def entry_of(ideal, law):
    return noisy(ideal, law, {}).cell.read_noise


def reads(array, direction, n=N):
    x, method = (X, array.read) if direction == "forward" else (D, array.read_transpose)
    return method(x.to(array.dtype).expand(n, -1)).double().numpy()


def assert_variance(samples, want):
    """Within 4.5 standard errors, sqrt(2 / n) of a variance."""
    np.testing.assert_array_less(
        np.abs(samples.var(axis=0) / want - 1), 4.5 * (2 / len(samples)) ** 0.5
    )


def expected(array, law, direction):
    """Sum over the cells of u^2 sigma(G)^2, straight from the conductances of the array."""
    held, card = array.conductances(), array.card
    pair = card.array.mapping == "differential"
    unit = (1.0 if pair else 2.0) / (HIGH - LOW) * array._memory.scales.scale
    cells = np.square(LAWS[law](held.cells) * unit).sum(axis=0)  # (slices, out, in)
    column = None
    if held.reference is not None:
        column = np.square(LAWS[law](held.reference) * unit)
    x, d = X.numpy(), D.numpy()
    place = np.square(array._memory.scales.digits)
    columns = card.array.columns or len(d)
    tiles = [slice(i, i + columns) for i in range(0, len(d), columns)]
    if direction == "forward":
        total = place @ (cells @ x**2)
        if column is not None:
            total = total + np.repeat(place @ (column @ x**2), columns)[: len(d)]
        return total
    total = place @ (d**2 @ cells)
    if column is not None:
        for n, tile in enumerate(tiles):
            total = total + d[tile].sum() ** 2 * (place @ column[:, n])
    return total


@pytest.mark.parametrize("direction", BOTH)
@pytest.mark.parametrize("mapping", MAPPINGS)
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("fused", [True, False])
def test_the_variance_of_many_reads(ideal, law, mapping, direction, fused):
    changes = {"array.mapping": mapping, "array.rows": 5, "array.columns": 4}
    array = Crossbar(W, noisy(ideal, law, changes), seed=3, fused=fused)
    samples, want = reads(array, direction), expected(array, law, direction)
    assert_variance(samples, want)
    exact = (W @ X if direction == "forward" else W.T @ D).numpy()
    assert (np.abs(samples.mean(axis=0) - exact) < 4.5 * np.sqrt(want / N)).all()


@pytest.mark.parametrize("direction", BOTH)
@pytest.mark.parametrize("mapping", MAPPINGS)
@pytest.mark.parametrize("law", LAWS)
def test_flawed_cells_and_slices_have_the_noise_of_what_they_hold(ideal, law, mapping, direction):
    changes = {
        "array.mapping": mapping, "array.columns": 4, "cell.levels": 5, "array.slices": 2,
        "cell.programming.sigma": 0.05, "cell.stuck.low": 0.1, "cell.stuck.high": 0.1,
    }  # fmt: skip
    array = Crossbar(W.float(), noisy(ideal, law, changes), seed=5)
    assert_variance(reads(array, direction), expected(array, law, direction))


@pytest.mark.parametrize("law", LAWS)
def test_lines_and_repeats_are_independent_without_a_reference_column(ideal, law):
    array = Crossbar(W, noisy(ideal, law, {"array.mapping": "offset"}), seed=1)
    for direction in BOTH:
        samples = reads(array, direction)
        correlation = np.corrcoef(samples.T) - np.eye(samples.shape[1])
        assert np.abs(correlation).max() < 4.5 / N**0.5
        assert abs(np.corrcoef(samples[1:, 0], samples[:-1, 0])[0, 1]) < 4.5 / N**0.5


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_variance_of_a_weight_is_the_sum_over_its_devices(ideal, law, dtype):
    g = torch.rand(2, 7, 5, generator=torch.Generator().manual_seed(1), dtype=dtype)
    noise = CellNoise(entry_of(ideal, law), HIGH, 1.7, g[:, None], 2)
    sigma = LAWS[law](g.double().numpy() * HIGH) / HIGH * 1.7
    want = torch.from_numpy(np.square(sigma).sum(axis=0)).to(dtype)
    torch.testing.assert_close(variance(g, noise), want)
    forward, factor = noise.variances(forward=True)
    torch.testing.assert_close(forward[0] * factor, want.T)
    transposed, factor = noise.variances(forward=False)
    torch.testing.assert_close(transposed[0] * factor, want)


def test_one_number_does_where_all_cells_are_alike(ideal):
    entry = entry_of(ideal, "constant")
    assert CellNoise(entry, HIGH, 1.7, None, 2).uniform == pytest.approx(2 * (SIGMA * 1.7) ** 2)
    cells = torch.ones(1, 1, 2, 2)
    assert CellNoise(entry, HIGH, 1.7, cells, 1, cells[0]).uniform is None
    for law in ("proportional", "sqrt", "table"):
        assert CellNoise(entry_of(ideal, law), HIGH, 1.7, cells, 1).uniform is None


def test_a_silent_law_costs_nothing(ideal):
    card = ideal.override({"cell.read_noise.law": "sqrt", "cell.read_noise.sigma": 0.0})
    array = Crossbar(W, card)
    assert array._memory.derived.noise is None
    assert not array.stage("forward").noisy
    assert ReadNoise().law == "none"


def test_cells_at_zero_are_silent_under_laws_that_vanish_there(ideal):
    """A pair that stores zero with g_min = 0 conducts nothing, so nothing fluctuates."""
    w = torch.zeros(3, 4, dtype=torch.float64)
    w[0, 0] = 1.0
    for law, silent in (("proportional", True), ("sqrt", True), ("constant", False)):
        changes = {"cell.read_noise.law": law, "cell.read_noise.sigma": 0.1}
        array = Crossbar(w, ideal.override(changes))
        y = array.read(torch.ones(50, 4, dtype=torch.float64))
        assert (y[:, 1:] == 0).all() == silent
        assert y[:, 0].std() > 0.01


@pytest.mark.parametrize("mapping", MAPPINGS)
@pytest.mark.parametrize("law", LAWS)
def test_a_noisy_read_is_bound_to_its_place(ideal, law, mapping):
    changes = {"array.mapping": mapping, "array.rows": 5, "array.columns": 4}
    card = noisy(ideal, law, changes)
    array, other = (Crossbar(W, card, seed=seed) for seed in (3, 4))
    x, at = X.expand(20, -1), Position(7, 100)
    whole = array.read(x, position=at)
    for n in (0, 3, 19):
        assert torch.equal(array.read(X, position=Position(7, 100 + n)), whole[n])
    assert not torch.equal(array.read(x, position=Position(8, 100)), whole)
    assert not torch.equal(other.read(x, position=at), whole)
