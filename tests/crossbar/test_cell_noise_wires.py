"""Read noise behind resistive wires: how good a variance per cell is, and that it stays sane."""

import numpy as np
import pytest
import torch

from eptsim.crossbar.crossbar import Crossbar
from eptsim.crossbar.wires import effective_conductance

G, SIGMA = 1e-5, 0.02
OUT, IN = 20, 24
SIGNS = torch.tensor(np.random.default_rng(3).choice([-1.0, 1.0], IN))
ONES = torch.ones(IN, dtype=torch.float64)
W = torch.rand(OUT, IN, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 2 - 1
W[0, 0] = 1.0
LAWS = ("constant", "proportional", "sqrt")


def wired(ideal, ohm, law, changes=None):
    values = {
        "cell.g_max_s": G, "array.mapping": "offset", "array.wire_word_ohm": ohm,
        "array.wire_bit_ohm": ohm, "cell.read_noise.law": law, "cell.read_noise.sigma": SIGMA,
    }  # fmt: skip
    return ideal.override({**values, **(changes or {})})


def sigma_s(g_s, law):
    return SIGMA * {"constant": G + 0 * g_s, "proportional": g_s, "sqrt": np.sqrt(g_s * G)}[law]


def solved(g_s, ohm):
    """Effective conductances (..., out, in) of ``g_s`` (..., out, in)."""
    return np.swapaxes(effective_conductance(np.swapaxes(g_s, -1, -2), ohm, ohm), -1, -2)


def derivatives(g_s, ohm):
    """(cells, out, in): exact effective conductances per change of each single cell."""
    step = 1e-5 * G
    moved = np.repeat(g_s[None], g_s.size, 0).reshape(g_s.size, g_s.size)
    moved[np.diag_indices(g_s.size)] += step
    return (solved(moved.reshape(g_s.size, *g_s.shape), ohm) - solved(g_s, ohm)) / step


def given(array, x):
    """Variance of each output as the array has it, (out,)."""
    noise, factor = array._memory.derived.noise.variances(forward=False)
    return (noise[0] * factor).numpy() @ x.numpy() ** 2


def compare(ideal, ohm, law, x, w=W):
    """Share of the current that the wires take, and the relative errors of the variances."""
    array = Crossbar(w, wired(ideal, ohm, law))
    g_s = array.conductances().cells[0, 0]
    change = derivatives(g_s, ohm) @ x.numpy()
    want = sigma_s(g_s, law).ravel() ** 2 @ change**2 * (2 / G) ** 2
    loss = 1 - solved(g_s, ohm).sum() / g_s.sum()
    return loss, given(array, x) / want - 1


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize(("ohm", "taken"), [(1.0, 0.002), (10.0, 0.02), (60.0, 0.1), (250.0, 0.3)])
def test_inputs_of_either_sign(ideal, law, ohm, taken):
    """Mean over the lines within a quarter of the share that the wires take, each within it."""
    loss, error = compare(ideal, ohm, law, SIGNS)
    assert loss == pytest.approx(taken, rel=0.25)
    assert abs(error.mean()) < 0.25 * loss
    assert np.abs(error).max() < loss


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize(("ohm", "taken"), [(1.0, 0.002), (10.0, 0.02), (60.0, 0.1), (250.0, 0.3)])
def test_inputs_of_one_sign_are_given_too_much(ideal, law, ohm, taken):
    """By the share that the wires take: the bit lines rise with the other drives."""
    loss, error = compare(ideal, ohm, law, ONES)
    assert 0.8 * loss < error.mean() < 1.5 * loss
    assert error.min() > 0


@pytest.mark.parametrize("law", LAWS)
def test_against_perturbed_cells_solved_one_by_one(ideal, law):
    """Monte Carlo: every cell drawn anew, the wires solved exactly, 8000 times.

    Standard error of a variance: sqrt(2 / 8000) = 0.016 a line, 0.0035 of the mean of 20.
    """
    ohm, n = 60.0, 8000
    array = Crossbar(W, wired(ideal, ohm, law), seed=1)
    g_s = array.conductances().cells[0, 0]
    sigma, rng = sigma_s(g_s, law), np.random.default_rng(0)
    seen = []
    for _ in range(8):
        drawn = g_s + sigma * rng.normal(size=(n // 8, OUT, IN))
        seen.append(solved(np.maximum(drawn, 0), ohm) @ SIGNS.numpy())
    want = np.concatenate(seen).var(axis=0) * (2 / G) ** 2
    error = given(array, SIGNS) / want - 1
    assert abs(error.mean()) < 0.02 + 4.5 * (2 / (n * OUT)) ** 0.5
    reads = array.read(SIGNS.expand(n, -1)).numpy().var(axis=0)
    assert abs((reads / want - 1).mean()) < 0.02 + 4.5 * (4 / (n * OUT)) ** 0.5


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("mapping", ["differential", "reference_column", "offset"])
@pytest.mark.parametrize("model", ["exact", "ladder"])
def test_next_to_no_resistance_changes_next_to_nothing(ideal, law, mapping, model):
    """Nor does it silence cells that conduct nothing, which half of a pair do."""
    changes = {"array.mapping": mapping, "array.wire_model": model}
    w = W.clone()
    w[3] = -1.0
    card = wired(ideal, 1e-6, law, changes)
    none = ideal.override({"array.mapping": mapping, "cell.g_max_s": G,
                           "cell.read_noise.law": law, "cell.read_noise.sigma": SIGMA})
    plans = [Crossbar(w, one)._memory.derived for one in (card, none)]
    if law == "constant":
        want = plans[1].noise.uniform
    else:
        (want,), factor = plans[1].noise.variances(forward=False)
        want = want * factor
    (found,), _ = plans[0].noise.variances(forward=False)
    torch.testing.assert_close(found, found * 0 + want, rtol=1e-8, atol=1e-18)
    if mapping == "reference_column":
        torch.testing.assert_close(
            plans[0].reference_noise, plans[1].reference_noise, rtol=1e-8, atol=0
        )


@pytest.mark.parametrize("ohm", [10.0, 300.0, 3000.0])
def test_cells_that_hardly_conduct_are_no_louder_than_without_wires(ideal, ohm):
    """Sneak paths pass current around such a cell, and are no part of its own."""
    w = W.clone()
    w[::3] = -1 + torch.logspace(-12, -2, IN, dtype=torch.float64)
    array = Crossbar(w, wired(ideal, ohm, "constant"))
    (found,), _ = array._memory.derived.noise.variances(forward=False)
    assert (found <= (2 * SIGMA) ** 2 * (1 + 1e-12)).all()
    assert (found > 0).all()
    loss, error = compare(ideal, ohm, "constant", SIGNS, w)
    assert abs(error.mean()) < 0.25 * loss


def test_what_is_moved_takes_its_noise_along(ideal):
    array = Crossbar(W, wired(ideal, 60.0, "proportional"))
    held = array.conductances()
    held.cells[:, :, :10] *= 0.5
    before = given(array, SIGNS)
    array.set_conductances(held)
    after = given(array, SIGNS)
    assert (after[:10] / before[:10] < 0.3).all()
    array.refresh_wires()
    np.testing.assert_allclose(given(array, SIGNS), after, rtol=1e-12)  # ladders anyway
