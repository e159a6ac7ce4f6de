"""The SiLU gate."""

import torch

from eptsim.digital.activations import silu_gate


def test_formula_and_gradient() -> None:
    generator = torch.Generator().manual_seed(0)
    a = torch.randn(3, 4, generator=generator, dtype=torch.float64, requires_grad=True)
    b = torch.randn(3, 4, generator=generator, dtype=torch.float64, requires_grad=True)
    assert torch.allclose(silu_gate(a, b), a / (1 + torch.exp(-a)) * b, rtol=1e-14, atol=0)
    assert torch.autograd.gradcheck(silu_gate, (a, b))


def test_extremes_stay_finite() -> None:
    a = torch.tensor([-1e4, 0.0, 1e4])
    assert torch.equal(silu_gate(a, torch.ones(3)), torch.tensor([0.0, 0.0, 1e4]))
