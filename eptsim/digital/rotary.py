"""Rotary position embedding (RoPE), in Hugging Face's half-split convention."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from eptsim.base.errors import InputError, choice

ANGLES = ("float32", "float64")


@dataclass(frozen=True)
class Rotary:
    """Cosines and sines of the rotation angles of T positions."""

    cos: Tensor
    """Shape (T, h_d): the h_d / 2 frequencies, twice."""
    sin: Tensor
    """Shape (T, h_d)."""

    @property
    def positions(self) -> int:
        """The number of positions T."""
        return self.cos.shape[0]


def rotary_table(
    positions: int,
    head_dim: int,
    theta: float,
    dtype: torch.dtype = torch.float32,
    device: torch.device | str | None = None,
    angles: str = "float64",
) -> Rotary:
    """Tabulate cos and sin of ``t * theta^(-2i / h_d)``, t = 0 .. T-1, i = 0 .. h_d/2 - 1.

    Parameters
    ----------
    positions : int
        Number of positions T, at least 1.
    head_dim : int
        Width h_d of one head, even.
    theta : float
        Base of the frequencies (OLMo2: 5e5).
    dtype : torch.dtype
        Of the returned table.
    angles : "float64" or "float32"
        Precision in which frequencies, angles, cos and sin are computed before the cast to
        ``dtype``. "float64" is the formula to rounding. "float32" repeats transformers'
        ``Olmo2RotaryEmbedding`` operation by operation: whatever the dtype of the model, its
        frequencies and angles are float32, which moves cos and sin by up to 6e-8 T
        (1.6e-5 at T = 256, 1e-4 at T = 2048). Sharp attention magnifies that: with large query
        and key gains the logits of a 4-block model moved by 1e-3 at T = 256.

    Returns
    -------
    Rotary with tables of shape (T, h_d).

    Raises
    ------
    InputError
        ``positions`` below 1, odd or non-positive ``head_dim``, non-positive ``theta``, or an
        unknown ``angles``.

    References
    ----------
    Su et al., "RoFormer", arXiv:2104.09864, Eq. 34; transformers' ``modeling_olmo2.py``.
    """
    choice(angles, ANGLES, "rotary_table: angles")
    if positions < 1:
        raise InputError(f"rotary_table: positions: found {positions}, allowed: 1 or more")
    if head_dim < 2 or head_dim % 2:
        raise InputError(f"rotary_table: head_dim: found {head_dim}, allowed: even, 2 or more")
    if not theta > 0:
        raise InputError(f"rotary_table: theta: found {theta}, allowed: above 0")
    precision = torch.float64 if angles == "float64" else torch.float32
    # On the CPU whatever the device, so that every device rotates by the same angles.
    exponent = torch.arange(0, head_dim, 2, dtype=precision) / head_dim
    frequency = 1.0 / (theta**exponent)
    angle = torch.arange(positions, dtype=precision)[:, None] * frequency
    angle = torch.cat((angle, angle), dim=-1)
    return Rotary(angle.cos().to(device, dtype), angle.sin().to(device, dtype))


def rotate(x: Tensor, rotary: Rotary) -> Tensor:
    """Rotate channel pairs (i, i + h_d/2) of every position by its angle.

    ``x``: shape (..., T, h_d), T the positions of ``rotary``. Returns the same shape and dtype.
    """
    low, high = x.chunk(2, dim=-1)
    turned = torch.cat((-high, low), dim=-1)
    return (x * rotary.cos + turned * rotary.sin).to(x.dtype)


def rotate_vjp(d: Tensor, rotary: Rotary, out: Tensor) -> None:
    """Write the vector-Jacobian product of :func:`rotate` with ``d`` (..., T, h_d) into ``out``.

    The transpose of a rotation turns back: the pair's two halves exchange with the other sign.
    """
    low, high = d.chunk(2, dim=-1)
    out_low, out_high = out.chunk(2, dim=-1)
    cos_low, cos_high = rotary.cos.chunk(2, dim=-1)
    sin_low, sin_high = rotary.sin.chunk(2, dim=-1)
    torch.mul(low, cos_low, out=out_low).addcmul_(high, sin_high)
    torch.mul(high, cos_high, out=out_high).addcmul_(low, sin_low, value=-1.0)
