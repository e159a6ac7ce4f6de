"""Number formats of the digital periphery."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from eptsim.base.errors import InputError, choice

FORMATS = ("float32", "bfloat16", *(f"int{bits}" for bits in range(2, 17)))
"""The known formats: float32 (no rounding at all), bfloat16, int2 to int16."""


class _StraightThrough(torch.autograd.Function):
    """Rounds forward, passes the gradient through unchanged."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, fmt: str) -> Tensor:
        return _round(x, fmt)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, str], output: Tensor) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return grads[0], None


def _round(x: Tensor, fmt: str) -> Tensor:
    if fmt == "bfloat16":
        narrow: Tensor = x.to(torch.bfloat16)
        return narrow.to(x.dtype)
    # Divide by the peak before multiplying by the top level: a subnormal peak / top would be 0.
    top = (1 << (int(fmt.removeprefix("int")) - 1)) - 1
    wide = x.to(torch.float64 if x.dtype == torch.float64 else torch.float32)
    peak = wide.abs().amax(-1, keepdim=True)
    unit = wide / torch.where(peak == 0, torch.ones_like(peak), peak)
    return (torch.round(unit * top) / top * peak).to(x.dtype)


def quantise(x: Tensor, fmt: str) -> Tensor:
    """Round ``x`` to a number format; the gradient passes straight through.

    Parameters
    ----------
    x : Tensor, shape (..., n), floating point
        Each vector along the last dimension has a scale of its own in the integer formats, so
        splitting a batch changes nothing.
    fmt : str
        One of ``FORMATS``. "float32" returns ``x`` as it is, whatever its dtype. "bfloat16"
        rounds the significand to 8 bits. "intN" rounds to the 2^N - 1 levels
        ``k * max|x| / (2^(N-1) - 1)``, symmetric about zero, ties to even; an all-zero vector
        stays zero and the largest magnitude is kept exactly.

    Returns
    -------
    Tensor of the shape and dtype of ``x``. NaN stays NaN; an infinite entry in an integer format
    makes its vector NaN, never zero.

    Raises
    ------
    InputError
        Unknown format (the message names the nearest one), or ``x`` not floating point.
    """
    choice(fmt, FORMATS, "number format")
    if not x.is_floating_point():
        raise InputError(f"quantise: x: found dtype {x.dtype}, allowed: a floating-point dtype")
    if fmt == "float32" or x.numel() == 0:
        return x
    rounded: Tensor = _StraightThrough.apply(x, fmt)  # type: ignore[no-untyped-call]
    return rounded
