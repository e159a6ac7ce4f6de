"""Causal softmax attention."""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention


def split_heads(x: Tensor, n_heads: int) -> Tensor:
    """(B, T, C) -> (B, H, T, C/H)."""
    batch, positions, width = x.shape
    return x.view(batch, positions, n_heads, width // n_heads).transpose(1, 2)


def merge_heads(x: Tensor) -> Tensor:
    """(B, H, T, h_d) -> (B, T, H h_d)."""
    return x.transpose(1, 2).flatten(2)


def causal_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """``softmax(q k^T / sqrt(h_d)) v``, each position seeing itself and the ones before it.

    Parameters
    ----------
    q, k, v : Tensor, shape (B, H, T, h_d)

    Returns
    -------
    Tensor, shape (B, H, T, h_d)

    Notes
    -----
    torch picks the kernel. Its fused kernels have a backward pass but no forward-mode derivative
    and no second derivative; where those are needed, call this under
    ``torch.nn.attention.sdpa_kernel(SDPBackend.MATH)``.
    """
    return scaled_dot_product_attention(q, k, v, is_causal=True)
