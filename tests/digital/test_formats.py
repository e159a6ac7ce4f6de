"""Number formats of the periphery."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from eptsim.base.errors import InputError
from eptsim.digital.formats import FORMATS, quantise

ROUNDED = FORMATS[1:]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_float32_is_the_identity_for_any_dtype(dtype: torch.dtype) -> None:
    x = torch.linspace(-3, 3, 11).to(dtype)
    assert quantise(x, "float32") is x


def test_bfloat16_is_torchs() -> None:
    x = torch.linspace(-3, 3, 101)
    assert torch.equal(quantise(x, "bfloat16"), x.bfloat16().float())
    assert quantise(x.double(), "bfloat16").dtype == torch.float64


@pytest.mark.parametrize("bits", range(2, 17))
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_int_levels_and_error(bits: int, dtype: torch.dtype) -> None:
    x = torch.randn(4, 3000, generator=torch.Generator().manual_seed(bits)).to(dtype)
    y = quantise(x, f"int{bits}")
    top = 2 ** (bits - 1) - 1
    peak = x.abs().amax(-1, keepdim=True)
    assert y.dtype == dtype
    assert torch.equal(y.abs().amax(-1, keepdim=True), peak)
    steps = y / peak * top
    assert (steps - steps.round()).abs().max() < 1e-2
    assert (y - x).abs().max() <= (peak / top / 2).max() * (1 + 1e-3)
    ramp = quantise(torch.linspace(-1, 1, 2**18 + 1, dtype=dtype), f"int{bits}")
    assert len(ramp.unique()) == 2 * top + 1


def test_int2_by_hand() -> None:
    x = torch.tensor([[0.4, -0.6, 1.0], [-8.0, 4.1, 0.0]])
    assert quantise(x, "int2").tolist() == [[0.0, -1.0, 1.0], [-8.0, 8.0, 0.0]]


@pytest.mark.parametrize("fmt", ROUNDED)
def test_idempotent_symmetric_and_per_vector(fmt: str) -> None:
    x = torch.randn(6, 50, generator=torch.Generator().manual_seed(0))
    x[2] *= 1e6
    y = quantise(x, fmt)
    assert torch.equal(quantise(y, fmt), y)
    assert torch.equal(quantise(-x, fmt), -y)
    assert torch.equal(torch.cat([quantise(part, fmt) for part in x.split(1)]), y)


@pytest.mark.parametrize("fmt", FORMATS)
def test_zero_vector_stays_zero(fmt: str) -> None:
    x = torch.zeros(2, 4)
    x[1, 2] = 1e-45  # the smallest float32: a scale of peak / 127 would be zero
    y = quantise(x, fmt)
    assert torch.equal(y[0], torch.zeros(4))
    assert bool(torch.isfinite(y).all())
    if fmt != "bfloat16":
        assert torch.equal(y, x)


@pytest.mark.parametrize("fmt", FORMATS)
def test_straight_through_gradient(fmt: str) -> None:
    x = torch.randn(3, 8, generator=torch.Generator().manual_seed(0), requires_grad=True)
    force = torch.randn(3, 8, generator=torch.Generator().manual_seed(1))
    (grad,) = torch.autograd.grad(quantise(x, fmt), x, force)
    assert torch.equal(grad, force)
    _, vjp = torch.func.vjp(lambda a: quantise(a, fmt), x)
    assert torch.equal(vjp(force)[0], force)


@pytest.mark.parametrize("fmt", ROUNDED)
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_nothing_bad_becomes_a_number(fmt: str, bad: float) -> None:
    y = quantise(torch.tensor([1.0, bad, 0.0]), fmt)
    assert not bool(torch.isfinite(y[1]))
    if fmt != "bfloat16":
        assert bool(torch.isnan(y).all())


@settings(max_examples=50, deadline=None)
@given(
    values=st.lists(st.floats(-(2.0**100), 2.0**100, width=32), max_size=12),
    fmt=st.sampled_from(ROUNDED),
)
def test_error_is_at_most_half_a_step(values: list[float], fmt: str) -> None:
    x = torch.tensor(values)
    error = (quantise(x, fmt) - x).abs()
    if x.numel() and fmt != "bfloat16":
        top = 2 ** (int(fmt[3:]) - 1) - 1
        peak = float(x.abs().max())
        assert float(error.max()) <= peak * (0.5 / top + 3e-7) + 1e-45


@pytest.mark.parametrize("fmt", ["int1", "int17", "int0", "int08", "int", "float64", "", "INT8"])
def test_unknown_format_is_refused(fmt: str) -> None:
    with pytest.raises(InputError, match="number format: found"):
        quantise(torch.ones(3), fmt)


def test_refusals_name_the_nearest_and_the_dtype() -> None:
    with pytest.raises(InputError, match="Did you mean 'bfloat16'"):
        quantise(torch.ones(3), "bfloat61")
    with pytest.raises(InputError, match=r"found dtype torch\.int64"):
        quantise(torch.ones(3, dtype=torch.int64), "int8")
