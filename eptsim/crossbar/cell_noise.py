"""Read noise of the cells of one array, as variances of its stored weights.

The noise of a line is the sum over its cells, so one draw per output with the summed variance is
the exact distribution (design, section 4). The variances are computed from the conductances when
they are needed, which costs one pass over the cells a read and no memory.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from eptsim.cards.cell_entries import ReadNoise
from eptsim.cell.read_noise import sigma_s
from eptsim.crossbar.kernels_cpu import sum_of_squares
from eptsim.crossbar.tiles import operand


@dataclass(frozen=True)
class CellNoise:
    """Variance of one read of each stored weight, in units of the weights.

    Attributes
    ----------
    entry : ReadNoise
        The law of the card.
    g_max_s : float
        Unit of the conductances.
    per_g : float
        Stored weight per conductance of one device, in units of ``g_max_s``.
    cells : (devices, slices, out, in) or None
        Conductances in units of ``g_max_s``; None where all cells share one variance.
    devices : int
        Devices per weight.
    fixed : (slices, out, in) or None
        Variances that are not computed anew: those that wires or a table change.
    """

    entry: ReadNoise
    g_max_s: float
    per_g: float
    cells: torch.Tensor | None
    devices: int
    fixed: torch.Tensor | None = None

    @property
    def uniform(self) -> float | None:
        """The variance, where every stored weight has the same."""
        if self.entry.law == "constant" and self.fixed is None:
            return self.devices * (self.entry.sigma * self.per_g) ** 2
        return None

    def variances(self, forward: bool) -> tuple[list[torch.Tensor], float]:
        """Variances (inner, lines) of each slice as one direction sees them.

        Up to a common factor, the second result, which costs less on the smaller side.
        """
        if self.fixed is not None:
            found, factor = list(self.fixed), 1.0
        else:
            assert self.cells is not None
            pairs = [_summed(self.cells[:, k], self) for k in range(self.cells.shape[1])]
            found, factor = [total for total, _ in pairs], pairs[0][1]
        return ([operand(part.T) for part in found] if forward else found), factor


def variance(cells: torch.Tensor, noise: CellNoise) -> torch.Tensor:
    """Summed variance of the devices (devices, ...) of each weight, in units of the weights."""
    found, factor = _summed(cells, noise)
    return found if factor == 1.0 else found * factor


def _summed(cells: torch.Tensor, noise: CellNoise) -> tuple[torch.Tensor, float]:
    """The variance of ``cells`` over a factor, and the factor."""
    entry = noise.entry
    unit = entry.sigma * noise.per_g
    if entry.law == "proportional":
        return _sum_of_squares(cells), unit**2
    if entry.law == "sqrt":
        return (cells[0] if cells.shape[0] == 1 else cells.sum(dim=0)), unit**2
    if entry.law == "constant":
        return torch.full_like(cells[0], cells.shape[0] * unit**2), 1.0
    g_s = cells.double().cpu().numpy() * noise.g_max_s
    sigma = sigma_s(g_s, entry.law, entry.sigma, noise.g_max_s, entry.table) / noise.g_max_s
    total_64 = np.square(sigma * noise.per_g).sum(axis=0)
    return torch.from_numpy(total_64).to(cells.device, cells.dtype), 1.0


def _sum_of_squares(cells: torch.Tensor) -> torch.Tensor:
    if cells.shape[0] == 2 and cells.dim() == 3 and cells.device.type == "cpu":
        total = torch.empty_like(cells[0])
        sum_of_squares(cells[0].numpy(), cells[1].numpy(), total.numpy())
        return total
    total = cells[0].square()
    for device in cells[1:]:
        total.addcmul_(device, device)
    return total


def through_wires(variances: torch.Tensor, attenuation: torch.Tensor) -> torch.Tensor:
    """Variances (devices, ...) of single devices as they appear at the lines of a resistive tile.

    A cell's noise reaches its line attenuated as its current is (``conduction.attenuation``), so
    its variance shrinks with the square. What is left out is the voltage that the other drives
    put on the bit line. With inputs of either sign it averages out, and the variance of a line is
    off by less than half of the fraction of the current that the wires take; with inputs all of
    one sign it is too large, by 1 to 1.5 times that fraction.
    """
    return variances * attenuation.square()
