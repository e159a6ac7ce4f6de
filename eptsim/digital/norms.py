"""Root-mean-square normalisation."""

from __future__ import annotations

import torch
from torch import Tensor


def rms_norm(x: Tensor, gain: Tensor, eps: float) -> Tensor:
    """Scale each vector to unit root mean square, then by a gain per channel.

    ``y = gain * x / sqrt(mean(x^2) + eps)``, the mean over the last dimension.

    As in transformers' ``Olmo2RMSNorm``, half-precision inputs are normalised in float32 and
    cast back. Unlike it, float64 inputs stay in float64: transformers casts them to float32 too,
    which limits a float64 comparison with it to about 1e-7.

    Parameters
    ----------
    x : Tensor, shape (..., C)
    gain : Tensor, shape (C,)
    eps : float
        Added to the mean square; in units of x squared.

    Returns
    -------
    Tensor, shape (..., C), in the dtype of ``x``.

    References
    ----------
    Zhang and Sennrich, "Root mean square layer normalization", NeurIPS 2019, Eq. 4.
    """
    working = torch.float64 if x.dtype == torch.float64 else torch.float32
    wide = x.to(working)
    unit = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + eps)
    return (gain * unit).to(x.dtype)


def rms_norm_vjp(
    x: Tensor, gain: Tensor, eps: float, d: Tensor, *, want_gain: bool = False
) -> tuple[Tensor, Tensor | None]:
    """Vector-Jacobian product of :func:`rms_norm` with ``d`` (..., C).

    With u = x / sqrt(mean(x^2) + eps): d_x = (gain d - u mean(gain d u)) / sqrt(mean(x^2) + eps).
    Written out because it takes half the memory passes that autograd takes.

    Returns
    -------
    d_x : Tensor, (..., C)
    d_gain : Tensor, (C,), or None unless ``want_gain``
    """
    width = x.shape[-1]
    inverse = torch.linalg.vector_norm(x, dim=-1, keepdim=True)
    inverse = inverse.square_().div_(width).add_(eps).rsqrt_()
    unit = x * inverse
    d_gain = (d * unit).flatten(0, -2).sum(0) if want_gain else None
    d_x = d * gain
    shared = torch.linalg.vecdot(d_x, unit).unsqueeze(-1).div_(width)
    return torch.addcmul(d_x, unit, shared, value=-1.0).mul_(inverse), d_gain
