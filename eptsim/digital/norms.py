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
