"""Offsets that wander between two reads, and what a line reference leaves of them."""

import numpy as np
import pytest
import torch

from eptsim.crossbar.crossbar import Crossbar
from eptsim.crossbar.stages import Position

BOTH = ("forward", "transpose")
SIGMA, TAU, FULL = 0.03, 2e-3, 4.0
LAGS = (0.0, 0.01, 0.3, 1.0, 3.0, 40.0)


def randn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def wandering(ideal, changes=None):
    values = {"array.rows": 3, "array.columns": 4}
    for d in BOTH:
        values |= {
            f"{d}.offset_drift": SIGMA, f"{d}.offset_time_s": TAU, f"{d}.output_range": FULL,
            f"{d}.offset": 0.01,
        }
    return ideal.override({**values, **(changes or {})})


def zero(array, direction, time_s, vectors=1):
    return array.zero_reference(direction, vectors, Position(0, 0, time_s)).numpy()


@pytest.mark.parametrize("direction", BOTH)
@pytest.mark.parametrize("lag", LAGS)
def test_two_zero_reads_differ_by_the_law_of_the_wander(ideal, direction, lag):
    """2 sigma^2 (1 - exp(-dt / tau)), over 4000 lines and more: standard error sqrt(2 / n)."""
    out, inner = (2000, 6) if direction == "forward" else (8, 2000)
    array = Crossbar(torch.ones(out, inner, dtype=torch.float64), wandering(ideal))
    t = 0.777
    change = zero(array, direction, t + lag * TAU) - zero(array, direction, t)
    assert change.shape == array.stage(direction).offset.shape
    assert change.size == 4000
    want = 2 * (SIGMA * FULL) ** 2 * -np.expm1(-lag)
    assert np.mean(change**2) == pytest.approx(want, rel=4.5 * (2 / 4000) ** 0.5, abs=1e-20)
    tiles = change[0].ravel(), change[1].ravel()
    if lag > 0:
        assert abs(np.corrcoef(*tiles)[0, 1]) < 4.5 / 2000**0.5


@pytest.mark.parametrize("direction", BOTH)
@pytest.mark.parametrize("fused", [True, False])
def test_a_line_reference_leaves_what_moved_since_it_was_taken(ideal, direction, fused):
    w = randn(11, 7)
    array = Crossbar(w, wandering(ideal), fused=fused)
    x = randn(5, 7 if direction == "forward" else 11, seed=1) * 0.1
    method = array.read if direction == "forward" else array.read_transpose
    stage, scale = array.stage(direction), w.abs().max()
    for t0, t1 in ((0.0, 0.0), (0.1, 0.1), (0.1, 0.1 + 0.2 * TAU), (0.3, 0.1)):
        reference = torch.from_numpy(zero(array, direction, t0))
        torch.testing.assert_close(reference, stage.offset_at(t0))
        y = method(x, range_policy="fixed", position=Position(1, 0, t1), reference=reference)
        left = (stage.offset_at(t1) - stage.offset_at(t0)).sum(dim=0) * scale
        want = x @ (w.T if direction == "forward" else w) + left
        torch.testing.assert_close(y, want, rtol=1e-12, atol=1e-12)
        assert (left.abs().max() > 0) == (t0 != t1)


@pytest.mark.parametrize("mapping", ["differential", "reference_column"])
def test_a_reference_of_wandering_noisy_lines_with_every_flaw(deep, mapping):
    """The mean read at t1 less the reference of t0, in converter units, is what moved."""
    card = deep(mapping, {"transpose.adc_bits": None, "transpose.line_noise": 0.002})
    w = randn(18, 23)
    array = Crossbar(w, card, seed=4)
    t0, t1, n = 0.1, 0.1 + 2 * card.transpose.offset_time_s, 4000
    still = torch.zeros(n, 18, dtype=torch.float64)
    stage = array.stage("transpose")
    reference = array.zero_reference("transpose", n, Position(0, 0, t0))
    y = array.read_transpose(still, position=Position(1, 0, t1), reference=reference)
    left = stage.offset_at(t1) - stage.offset_at(t0)
    # scales and digits weigh the segments as they do the array's own partial sums
    plan = array._plans["transpose"]
    want = (left * plan.factor).sum(dim=0) * plan.scale
    sigma = (2 * (0.002 * 2.0) ** 2 / n * (plan.factor * stage.gain).square().sum(dim=0)).sqrt()
    assert ((y.mean(dim=0) - want).abs() < 4.5 * sigma * plan.scale).all()
    assert (want.abs() > 20 * sigma * plan.scale).any()


def test_directions_arrays_and_seeds_wander_apart(ideal):
    w = torch.ones(2000, 2000, dtype=torch.float64)
    still = {"forward.offset": 0.0, "transpose.offset": 0.0, "array.rows": None}
    card = wandering(ideal, {**still, "array.columns": None})
    arrays = [Crossbar(w, card, seed, path=path) for seed, path in ((0, "a"), (1, "a"), (0, "b"))]
    shown = [zero(arrays[0], "transpose", 0.1)[0]]
    shown += [zero(array, "forward", 0.1)[0] for array in arrays]
    assert np.abs(np.corrcoef(shown) - np.eye(4)).max() < 4.5 / 2000**0.5


def test_a_noisy_stage_says_so(ideal):
    still = ideal.override({"forward.offset": 0.1})
    assert not Crossbar(torch.ones(2, 2), still).stage("forward").noisy
    array = Crossbar(torch.ones(2, 2), wandering(ideal))
    assert array.stage("forward").noisy
    assert Crossbar(torch.ones(2, 2), ideal.override({"cell.flicker.sigma": 0.1})).stage(
        "transpose"
    ).noisy
