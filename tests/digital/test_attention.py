"""Causal attention against the formula written out."""

import math

import pytest
import torch

from eptsim.digital.attention import causal_attention, merge_heads, split_heads


def _qkv(positions: int, dtype: torch.dtype) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(positions)
    return [torch.randn(2, 3, positions, 8, generator=generator).to(dtype) for _ in range(3)]


def _written_out(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    scores = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
    mask = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
    return torch.softmax(scores.masked_fill(mask, -math.inf), dim=-1) @ v


@pytest.mark.parametrize("positions", [1, 2, 17, 70])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-13)])
def test_values_and_gradients(positions: int, dtype: torch.dtype, tolerance: float) -> None:
    inputs = [x.requires_grad_() for x in _qkv(positions, dtype)]
    ours, theirs = causal_attention(*inputs), _written_out(*inputs)
    assert ours.dtype == dtype
    assert (ours - theirs).abs().max() < tolerance
    force = torch.randn(ours.shape, generator=torch.Generator().manual_seed(9)).to(dtype)
    grads = torch.autograd.grad(ours, inputs, force)
    for grad, expected in zip(grads, torch.autograd.grad(theirs, inputs, force), strict=True):
        assert (grad - expected).abs().max() < 10 * tolerance


def test_the_future_is_not_seen() -> None:
    q, k, v = _qkv(12, torch.float64)
    before = causal_attention(q, k, v)
    k[:, :, 7:], v[:, :, 7:] = 100.0, -5.0
    after = causal_attention(q, k, v)
    assert torch.equal(before[:, :, :7], after[:, :, :7])
    assert not torch.allclose(before[:, :, 7:], after[:, :, 7:])


def test_heads_split_along_channels_and_merge_back() -> None:
    x = torch.arange(2 * 5 * 12.0).view(2, 5, 12)
    heads = split_heads(x, 3)
    assert heads.shape == (2, 3, 5, 4)
    assert torch.equal(heads[1, 2, 4], x[1, 4, 8:12])
    assert torch.equal(merge_heads(heads), x)
