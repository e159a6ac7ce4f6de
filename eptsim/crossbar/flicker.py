"""1/f noise of the cells of one array: its weights at a given time."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from eptsim.base.streams import Stream
from eptsim.cell.flicker import Mode, fluctuation
from eptsim.crossbar.scaling import Tiling


@dataclass(frozen=True)
class Flicker:
    """Slow fluctuation of every stored weight, the same for both directions of a read.

    Attributes
    ----------
    sigma : float
        Card entry ``cell.flicker.sigma``.
    modes : tuple of Mode
        Fluctuators of every cell.
    stream : Stream
        Source of the draws.
    per_g : float
        Stored weight per conductance of one device, in units of the cells' own.
    cells : (devices, slices, out, in)
        Conductances that fluctuate, as the lines see them.
    reference : (slices, out_tiles, in) or None
        Conductances of the reference cells.
    tiling : Tiling
        Which lines share a reference cell.
    """

    sigma: float
    modes: tuple[Mode, ...]
    stream: Stream
    per_g: float
    cells: torch.Tensor
    reference: torch.Tensor | None
    tiling: Tiling

    def at(self, stored: torch.Tensor, time_s: float) -> torch.Tensor:
        """Weights (slices, out, in) at ``time_s``, of those ``stored`` without the noise.

        The devices of a weight fluctuate independently, so one draw with their summed variance is
        the exact distribution.
        """
        result = stored.clone()
        slices = stored.shape[0]
        for k in range(slices):
            size = self.cells[:, k].square().sum(dim=0).sqrt_()
            result[k] += self._draw(size, time_s, 2 * k) * (self.sigma * self.per_g)
            if self.reference is None:
                continue
            shift = self._draw(self.reference[k], time_s, 2 * k + 1) * (self.sigma * self.per_g)
            for tile, lines in enumerate(self.tiling.out):
                result[k, lines] -= shift[tile]
        return result

    def _draw(self, size: torch.Tensor, time_s: float, plane: int) -> torch.Tensor:
        rows, lines = size.shape
        found = fluctuation(self.stream, rows, lines, time_s, self.modes, plane)
        return torch.from_numpy(found).to(size.device, size.dtype) * size
