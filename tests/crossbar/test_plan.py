"""The oriented weights of a plan."""

import torch

from eptsim.crossbar.crossbar import Crossbar
from eptsim.crossbar.plan import orient

W = torch.randn(6, 9, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_a_direction_multiplies_inputs_by_lines():
    stored = torch.stack([W, 2 * W])
    forward, transposed = orient(stored, forward=True), orient(stored, forward=False)
    assert forward.shape == (2, 9, 6)
    torch.testing.assert_close(forward, stored.transpose(1, 2))
    assert transposed is stored


def test_float32_weights_are_held_once():
    """Both directions look at the same memory; float64 holds them twice for its kernels."""
    stored = W.float()[None]
    assert orient(stored, forward=True).data_ptr() == stored.data_ptr()
    assert orient(W[None], forward=True).is_contiguous()


def test_sizes_and_segments(ideal):
    changes = {"array.rows": 4, "array.columns": 5, "cell.levels": 3, "array.slices": 2}
    array = Crossbar(W, ideal.override({**changes, "forward.gain": 0.1, "transpose.gain": 0.1}))
    forward, transposed = array._plans["forward"], array._plans["transpose"]
    assert (forward.inner, forward.lines) == (9, 6)
    assert (transposed.inner, transposed.lines) == (6, 9)
    cuts = [slice(0, 4), slice(4, 8), slice(8, 9)]
    assert [(s.k, s.part) for s in forward.segments] == [(k, part) for k in (0, 1) for part in cuts]
    assert [s.k for s in transposed.segments] == [0, 0, 1, 1]


def test_weights_stand_still_without_flicker(ideal):
    plan = Crossbar(W, ideal.override({"forward.gain": 0.1}))._plans["forward"]
    assert plan.weights_at(0.0) is plan.oriented
    assert plan.weights_at(1e5) is plan.oriented
    moving = Crossbar(W, ideal.override({"cell.flicker.sigma": 0.1}))._plans["forward"]
    first = moving.weights_at(0.3)
    assert not torch.equal(first, moving.oriented)
    assert torch.equal(moving.weights_at(0.3), first)
    assert first.shape == moving.oriented.shape
