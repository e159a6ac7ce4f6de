"""One OLMo2 block: seven matmuls on crossbars, everything else digital."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from eptsim.base.errors import InputError
from eptsim.digital.activations import silu_gate
from eptsim.digital.attention import causal_attention, merge_heads, split_heads
from eptsim.digital.norms import rms_norm
from eptsim.digital.rotary import Rotary, rotate

ARRAYS = ("qkv", "proj", "w1", "w3", "w2")
"""The crossbar arrays of one block, in the order in which they are read."""

MATRICES: dict[str, tuple[str, ...]] = {
    "qkv": ("self_attn.q_proj.weight", "self_attn.k_proj.weight", "self_attn.v_proj.weight"),
    "proj": ("self_attn.o_proj.weight",),
    "w1": ("mlp.gate_proj.weight",),
    "w3": ("mlp.up_proj.weight",),
    "w2": ("mlp.down_proj.weight",),
}
"""Array -> the Hugging Face parameters stacked in it along the outputs, first rows first."""

GAINS: dict[str, str] = {
    "q": "self_attn.q_norm.weight",
    "k": "self_attn.k_norm.weight",
    "attn": "post_attention_layernorm.weight",
    "ff": "post_feedforward_layernorm.weight",
}
"""Field of BlockGains -> its Hugging Face parameter."""

Matmul = Callable[[str, Tensor], Tensor]
"""``matmul(name, x)``: array ``name`` applied to x (B, T, in) -> (B, T, out)."""


@dataclass(frozen=True)
class BlockGains:
    """Gains of the four norms of one block."""

    q: Tensor
    """Shape (C,): on the queries, before the head split."""
    k: Tensor
    """Shape (C,): on the keys, before the head split."""
    attn: Tensor
    """Shape (C,): on the output of the attention sublayer."""
    ff: Tensor
    """Shape (C,): on the output of the feed-forward sublayer."""


def attention_core(
    qkv: Tensor, gains: BlockGains, rotary: Rotary, n_heads: int, eps: float
) -> Tensor:
    """From the raw lines of the qkv array to the merged heads (design, section 2, steps 1 to 3).

    ``qkv``: (B, T, 3C), queries, keys, values side by side. Returns y: (B, T, C).
    Raises InputError where ``rotary`` is not a table for T positions.
    """
    if qkv.shape[1] != rotary.positions:
        raise InputError(
            f"attention_core: rotary: found a table of {rotary.positions} positions, "
            f"allowed: {qkv.shape[1]}, the positions of qkv"
        )
    q, k, v = qkv.chunk(3, dim=-1)  # each (B, T, C)
    q = split_heads(rms_norm(q, gains.q, eps), n_heads)  # (B, H, T, h_d)
    k = split_heads(rms_norm(k, gains.k, eps), n_heads)
    v = split_heads(v, n_heads)
    y = causal_attention(rotate(q, rotary), rotate(k, rotary), v)
    return merge_heads(y)


def add_normed(x: Tensor, update: Tensor, gain: Tensor, eps: float) -> Tensor:
    """``x + RMSNorm(update)``: OLMo2 norms the sublayer's output. All (..., C), gain (C,)."""
    return x + rms_norm(update, gain, eps)


def gate(a: Tensor, b: Tensor) -> Tensor:
    """``SiLU(a) * b``: both (..., h_ff)."""
    return silu_gate(a, b)


def block_forward(
    z: Tensor, gains: BlockGains, rotary: Rotary, n_heads: int, eps: float, matmul: Matmul
) -> Tensor:
    """One block, f_l(z): (B, T, C) -> (B, T, C). Source: DESIGN.md, section 2.

    ``matmul(name, x)`` applies one of ``ARRAYS``, whatever holds it: a tensor or a crossbar.
    """
    y = attention_core(matmul("qkv", z), gains, rotary, n_heads, eps)  # (B, T, C)
    h = add_normed(z, matmul("proj", y), gains.attn, eps)  # (B, T, C)
    g = gate(matmul("w1", h), matmul("w3", h))  # (B, T, h_ff)
    return add_normed(h, matmul("w2", g), gains.ff, eps)  # (B, T, C)
