"""rms_norm against transformers and the formula."""

import pytest
import torch
from transformers.models.olmo2.modeling_olmo2 import Olmo2RMSNorm

from eptsim.digital.norms import rms_norm, rms_norm_vjp


def _case(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(3, 5, 48, generator=generator).to(dtype) * 7
    return x, (1 + torch.randn(48, generator=generator)).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_bit_identical_to_transformers(dtype: torch.dtype) -> None:
    x, gain = _case(dtype)
    norm = Olmo2RMSNorm(48, eps=1e-5).to(dtype)
    norm.weight.data = gain
    ours = rms_norm(x, gain, 1e-5)
    assert ours.dtype == dtype
    assert torch.equal(ours, norm(x))


def test_float64_stays_float64_where_transformers_rounds_to_float32() -> None:
    x, gain = _case(torch.float64)
    exact = gain * x / torch.sqrt(x.square().mean(-1, keepdim=True) + 1e-5)
    assert torch.allclose(rms_norm(x, gain, 1e-5), exact, rtol=1e-14, atol=0)
    norm = Olmo2RMSNorm(48, eps=1e-5).double()
    norm.weight.data = gain
    difference = (norm(x) - exact).abs().max()
    assert 1e-9 < difference < 1e-5


def test_gradient() -> None:
    x, gain = _case(torch.float64)
    x, gain = x[:1, :2, :5].clone().requires_grad_(), gain[:5].clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda a, b: rms_norm(a, b, 1e-5), (x, gain))


def test_zero_vector_stays_zero() -> None:
    assert torch.equal(rms_norm(torch.zeros(2, 4), torch.ones(4), 1e-5), torch.zeros(2, 4))


@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e3])
def test_written_out_vjp_is_autograds(scale: float) -> None:
    x, gain = _case(torch.float64)
    x = (x * scale).requires_grad_()
    gain.requires_grad_()
    d = torch.randn(x.shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    want = torch.autograd.grad(rms_norm(x, gain, 1e-5), (x, gain), d)
    got = rms_norm_vjp(x.detach(), gain.detach(), 1e-5, d, want_gain=True)
    for a, b in zip(got, want, strict=True):
        assert a is not None
        assert (a - b).abs().max() <= 1e-13 * b.abs().max()
