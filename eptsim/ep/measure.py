"""Reading dF/dtheta off a settled state, block by block, into one set of gradients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import linear

from eptsim.chip import Chip, Pass
from eptsim.digital.loss import cross_entropy_sum
from eptsim.digital.norms import rms_norm
from eptsim.ep.state import State
from eptsim.ep.vjp import block_vjp
from eptsim.olmo2.block import GAINS, MATRICES
from eptsim.olmo2.operations import (
    block_vjp_operations,
    outer_product_operations,
    readout_operations,
)


@dataclass(frozen=True)
class Weights:
    """How much of one phase goes into the estimate.

    Attributes
    ----------
    energy : float
        Factor on dE/dtheta of the blocks and the embedding.
    loss : float
        Factor on dCE/dtheta of the readout and the final norm.
    """

    energy: float
    loss: float


class Accumulator:
    """Sum of weighted phase measurements for every parameter of a model."""

    def __init__(self, chip: Chip) -> None:
        self._model = chip.model
        self.grads: dict[str, Tensor] = {
            name: torch.zeros_like(value) for name, value in self._model.named_parameters()
        }

    def outer(self, layer: int, factor: float) -> Callable[[str, Tensor, Tensor], None]:
        """Receiver of the outer products of block ``layer``, weighted by ``factor``."""

        def add(array: str, delta: Tensor, x: Tensor) -> None:
            rows = delta.reshape(-1, delta.shape[-1])
            columns = x.reshape(-1, x.shape[-1])
            start = 0
            for suffix in MATRICES[array]:
                grad = self.grads[f"model.layers.{layer}.{suffix}"]
                part = rows[:, start : start + grad.shape[0]]
                grad.addmm_(part.T, columns, alpha=factor)
                start += grad.shape[0]

        return add

    def gain(self, layer: int, factor: float) -> Callable[[str, Tensor], None]:
        """Receiver of the norm-gain gradients of block ``layer``, weighted by ``factor``."""

        def add(name: str, gradient: Tensor) -> None:
            self.grads[f"model.layers.{layer}.{GAINS[name]}"].add_(gradient, alpha=factor)

        return add

    def embedding(self, tokens: Tensor, d: Tensor, factor: float) -> None:
        """Add ``factor`` d (B, T, C) to the rows of the embedding that ``tokens`` (B, T) name."""
        grad = self.grads["model.embed_tokens.weight"]
        grad.index_add_(0, tokens.reshape(-1).long(), d.reshape(-1, d.shape[-1]), alpha=factor)

    def head(self, z: Tensor, targets: Tensor, factor: float) -> float:
        """Add ``factor`` dCE/dtheta of final norm and readout at ``z``; return CE over tokens."""
        names = ("model.norm.weight", "lm_head.weight")
        # leaves of our own: the model's parameters may be frozen
        leaves = [
            self._model.get_parameter(name).detach().requires_grad_(factor != 0) for name in names
        ]
        with torch.enable_grad():
            normed = rms_norm(z.detach(), leaves[0], self._model.shape.rms_norm_eps)
            loss = cross_entropy_sum(linear(normed, leaves[1]), targets)
        if factor != 0:
            gradients = torch.autograd.grad(loss, leaves)
            for name, gradient in zip(names, gradients, strict=True):
                self.grads[name].add_(gradient, alpha=factor)
        return float(loss.detach())


def measure(
    chip: Chip,
    state: State,
    d: list[Tensor | None],
    tokens: Tensor,
    targets: Tensor,
    weights: Weights,
    into: Accumulator,
    trip: Pass,
) -> float:
    """Add the weighted dF/dtheta at ``state`` with mismatches ``d`` into ``into``.

    Every block is measured from its own mismatch: dE/dtheta = -<d_l, df_l/dtheta>. Returns the
    cross-entropy at the state, summed over tokens.
    """
    batch, positions, _ = state.z[0].shape
    shape = chip.model.shape
    rotary = chip.model.rotary(positions, state.z[0].device)
    operations = block_vjp_operations(shape, batch, positions)
    operations += outer_product_operations(shape, batch, positions)
    for layer in range(chip.layers):
        mismatch = d[layer + 1]
        if mismatch is None:
            continue
        below = block_vjp(
            chip, layer, state.z[layer], state.lines[layer], mismatch, rotary, trip,
            into.outer(layer, -weights.energy), into.gain(layer, -weights.energy),
        )
        chip.ledger.count_digital(operations, trip.phase)
        if layer == 0:
            into.embedding(tokens, below, -weights.energy)
    chip.ledger.count_digital(readout_operations(shape, batch, positions), trip.phase)
    return into.head(state.z[-1], targets, weights.loss)
