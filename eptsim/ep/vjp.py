"""The vector-Jacobian product of one block, its matmuls through the transposed crossbars.

The local linearisation is rebuilt from what the forward reads left in the registers (``lines``):
only the digital periphery is differentiated, one piece at a time, and nothing of one block is kept
for the next. On the way the outer product of every array is at hand.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from eptsim.chip import Chip, Pass
from eptsim.digital.norms import rms_norm
from eptsim.digital.rotary import Rotary
from eptsim.olmo2.block import BlockGains, add_normed, attention_core, gate

Outer = Callable[[str, Tensor, Tensor], None]
"""``outer(array, delta, x)``: delta (B, T, out) and x (B, T, in) of one array's outer product."""
Gain = Callable[[str, Tensor], None]
"""``gain(field, gradient)``: gradient (C,) of one norm gain of the block."""


def _leaf(x: Tensor) -> Tensor:
    return x.detach().requires_grad_()


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
    model = chip.model
    eps = model.shape.rms_norm_eps
    gains = model.block_gains(layer)
    read = _Reader(chip, layer, trip)

    with torch.no_grad():
        h = add_normed(z, lines["proj"], gains.attn, eps)
    d_w2 = _norm_vjp(lines["w2"], gains.ff, eps, d, "ff", gain)
    d_gate = read("w2", d_w2)

    a, b = _leaf(lines["w1"]), _leaf(lines["w3"])
    with torch.enable_grad():
        g = gate(a, b)
    d_w1, d_w3 = torch.autograd.grad(g, (a, b), d_gate)
    if outer is not None:
        outer("w2", d_w2, g.detach())
        outer("w1", d_w1, h)
        outer("w3", d_w3, h)
    d_h = d + read("w1", d_w1) + read("w3", d_w3)

    d_proj = _norm_vjp(lines["proj"], gains.attn, eps, d_h, "attn", gain)
    d_y = read("proj", d_proj)
    y, d_qkv = _attention_vjp(chip, gains, lines["qkv"], rotary, d_y, gain)
    if outer is not None:
        outer("proj", d_proj, y)
        outer("qkv", d_qkv, z)
    return d_h + read("qkv", d_qkv)


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
    x = _leaf(line)
    w = _leaf(weight) if gain is not None else weight.detach()
    with torch.enable_grad():
        normed = rms_norm(x, w, eps)
    if gain is None:
        return torch.autograd.grad(normed, x, d)[0]
    d_x, d_gain = torch.autograd.grad(normed, (x, w), d)
    gain(name, d_gain)
    return d_x


def _attention_vjp(
    chip: Chip, gains: BlockGains, qkv: Tensor, rotary: Rotary, d_y: Tensor, gain: Gain | None
) -> tuple[Tensor, Tensor]:
    """Merged heads y and the VJP of attention with respect to the raw lines ``qkv``."""
    shape = chip.model.shape
    x = _leaf(qkv)
    wanted = gain is not None
    local = BlockGains(
        q=gains.q.detach().requires_grad_(wanted),
        k=gains.k.detach().requires_grad_(wanted),
        attn=gains.attn,
        ff=gains.ff,
    )
    with torch.enable_grad():
        y = attention_core(x, local, rotary, shape.num_attention_heads, shape.rms_norm_eps)
    if gain is None:
        return y.detach(), torch.autograd.grad(y, x, d_y)[0]
    d_x, d_q, d_k = torch.autograd.grad(y, (x, local.q, local.k), d_y)
    gain("q", d_q)
    gain("k", d_k)
    return y.detach(), d_x
