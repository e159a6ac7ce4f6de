"""The vector-Jacobian product of one block, its matmuls through the transposed crossbars.

The local linearisation is rebuilt from what the forward reads left in the registers (``lines``):
only the digital periphery is differentiated, one piece at a time, and nothing of one block is kept
for the next. On the way the outer product of every array is at hand.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import silu

from eptsim.chip import Chip, Pass
from eptsim.digital.attention import causal_attention, merge_heads, split_heads
from eptsim.digital.norms import rms_norm, rms_norm_vjp
from eptsim.digital.rotary import Rotary, rotate, rotate_vjp
from eptsim.olmo2.block import BlockGains, add_normed

Outer = Callable[[str, Tensor, Tensor], None]
"""``outer(array, delta, x)``: delta (B, T, out) and x (B, T, in) of one array's outer product."""
Gain = Callable[[str, Tensor], None]
"""``gain(field, gradient)``: gradient (C,) of one norm gain of the block."""


def block_vjp(
    chip: Chip,
    layer: int,
    z: Tensor,
    lines: dict[str, Tensor],
    d: Tensor,
    rotary: Rotary,
    trip: Pass,
    outer: Outer | None = None,
    gain: Gain | None = None,
) -> Tensor:
    """J_l(z)^T d of block ``layer``: all (B, T, C).

    Parameters
    ----------
    z : (B, T, C)
        State below the block, at which ``lines`` were read.
    outer, gain : callables or None
        Receive <d, df/dW> as its two factors, and <d, df/dgain>, where a measurement wants them.
    """
    with torch.no_grad():
        eps = chip.model.shape.rms_norm_eps
        gains = chip.model.block_gains(layer)
        read = _Reader(chip, layer, trip)

        d_w2 = _norm_vjp(lines["w2"], gains.ff, eps, d, "ff", gain)
        d_w1, d_w3, g = _gate_vjp(lines["w1"], lines["w3"], read("w2", d_w2))
        d_h = read("w1", d_w1) + read("w3", d_w3)
        d_h += d
        if outer is not None:
            h = add_normed(z, lines["proj"], gains.attn, eps)
            outer("w2", d_w2, g)
            outer("w1", d_w1, h)
            outer("w3", d_w3, h)

        d_proj = _norm_vjp(lines["proj"], gains.attn, eps, d_h, "attn", gain)
        heads = chip.model.shape.num_attention_heads
        y, d_qkv = _attention_vjp(
            lines["qkv"], gains, rotary, heads, eps, read("proj", d_proj), gain
        )
        if outer is not None:
            outer("proj", d_proj, y)
            outer("qkv", d_qkv, z)
        return d_h.add_(read("qkv", d_qkv))


class _Reader:
    """Transposed reads of one block's arrays."""

    def __init__(self, chip: Chip, layer: int, trip: Pass) -> None:
        self._chip, self._layer, self._trip = chip, layer, trip

    def __call__(self, array: str, d: Tensor) -> Tensor:
        return self._chip.read_transpose(self._layer, array, d, self._trip)


def _norm_vjp(
    line: Tensor, weight: Tensor, eps: float, d: Tensor, name: str, gain: Gain | None
) -> Tensor:
    """VJP of RMSNorm with respect to its input ``line`` and, where wanted, its gain."""
    d_x, d_gain = rms_norm_vjp(line, weight, eps, d, want_gain=gain is not None)
    if gain is not None and d_gain is not None:
        gain(name, d_gain)
    return d_x


def _gate_vjp(a: Tensor, b: Tensor, d: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """VJP of SiLU(a) * b with respect to both, and its value; all (B, T, h_ff)."""
    leaf = a.detach().requires_grad_()
    with torch.enable_grad():
        s = silu(leaf)
    (d_a,) = torch.autograd.grad(s, leaf, d * b)
    s = s.detach()
    return d_a, d * s, s * b


def _attention_vjp(
    qkv: Tensor,
    gains: BlockGains,
    rotary: Rotary,
    n_heads: int,
    eps: float,
    d_y: Tensor,
    gain: Gain | None,
) -> tuple[Tensor, Tensor]:
    """Merged heads y (B, T, C), and the VJP of attention with respect to the raw lines ``qkv``."""
    raw_q, raw_k, raw_v = qkv.chunk(3, dim=-1)
    q = rotate(split_heads(rms_norm(raw_q, gains.q, eps), n_heads), rotary).requires_grad_()
    k = rotate(split_heads(rms_norm(raw_k, gains.k, eps), n_heads), rotary).requires_grad_()
    v = split_heads(raw_v, n_heads).detach().requires_grad_()
    with torch.enable_grad():
        y = causal_attention(q, k, v)
    d_q, d_k, d_v = torch.autograd.grad(y, (q, k, v), split_heads(d_y, n_heads))
    d_qkv = torch.empty_like(qkv)
    for part, raw, weight, d_head, name in zip(
        d_qkv.chunk(3, dim=-1)[:2], (raw_q, raw_k), (gains.q, gains.k), (d_q, d_k), "qk",
        strict=True,
    ):
        turned = torch.empty_like(raw, memory_format=torch.contiguous_format)
        rotate_vjp(d_head, rotary, split_heads(turned, n_heads))
        part.copy_(_norm_vjp(raw, weight, eps, turned, name, gain))
    split_heads(d_qkv.chunk(3, dim=-1)[2], n_heads).copy_(d_v)
    return merge_heads(y.detach()), d_qkv
