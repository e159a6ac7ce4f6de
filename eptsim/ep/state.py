"""The state of the network between phases, and the bottom-up pass that fills it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from eptsim.chip import Chip, Pass
from eptsim.olmo2.block import block_forward
from eptsim.olmo2.operations import block_forward_operations


@dataclass
class State:
    """States and mismatches of every block boundary.

    Attributes
    ----------
    z : list of Tensor, (B, T, C), length L + 1
        z[0] is the embedding, z[l] the state above block l.
    d : list of Tensor or None, length L + 1
        d[l] = z[l] - f_l(z[l-1]), the mismatch of block l; None where it is exactly zero. d[0] is
        not used.
    lines : list of dict, length L
        What the forward reads of block l + 1 gave at z[l] (array name -> digitised line values):
        what a chip holds in its registers after a bottom-up pass.
    """

    z: list[Tensor]
    d: list[Tensor | None]
    lines: list[dict[str, Tensor]]

    def copy(self) -> State:
        """A state that can be settled without changing this one (tensors are never written to)."""
        return State(list(self.z), list(self.d), list(self.lines))

    def energies(self) -> list[float]:
        """1/2 ||d_l||^2 of each block, summed over tokens, l = 1 .. L."""
        return [0.0 if d is None else 0.5 * float(d.double().square().sum()) for d in self.d[1:]]


def free_state(chip: Chip, tokens: Tensor, trip: Pass) -> State:
    """One bottom-up pass from the embedding of ``tokens`` (B, T): every mismatch is zero."""
    layers = chip.layers
    with torch.no_grad():
        z0 = chip.model.embed(tokens)
    state = State([z0] * (layers + 1), [None] * (layers + 1), [{} for _ in range(layers)])
    bottom_up(chip, state, trip)
    return state


def bottom_up(chip: Chip, state: State, trip: Pass) -> None:
    """Set z_l = f_l(z_{l-1}) + d_l from the bottom to the top, with fresh forward reads."""
    model = chip.model
    shape = model.shape
    batch, positions, _ = state.z[0].shape
    rotary = model.rotary(positions, state.z[0].device)
    operations = block_forward_operations(shape, batch, positions)
    with torch.no_grad():
        for layer in range(chip.layers):
            state.lines[layer] = {}
            lines: dict[str, Tensor] = {}

            def matmul(
                array: str, x: Tensor, layer: int = layer, lines: dict[str, Tensor] = lines
            ) -> Tensor:
                lines[array] = chip.read(layer, array, x, trip)
                return lines[array]

            z = block_forward(
                state.z[layer], model.block_gains(layer), rotary, shape.num_attention_heads,
                shape.rms_norm_eps, matmul,
            )
            d = state.d[layer + 1]
            state.z[layer + 1] = z if d is None else z + d
            state.lines[layer] = lines
            chip.ledger.count_digital(operations, trip.phase)
