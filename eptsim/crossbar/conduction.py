"""What the lines of an array see of its cells: conductances through resistive wires, per tile.

Every device of a weight (g+, g-) and every slice has a sub-array of its own, with the same wires.
A tile's reference column lies at the far end of its word lines.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from eptsim.cards.array_entries import Array as ArrayEntries
from eptsim.crossbar.scaling import Tiling
from eptsim.crossbar.wire_ladder import ladder_conductance
from eptsim.crossbar.wires import effective_conductance


@dataclass(frozen=True)
class Wires:
    """Resistances (ohm) of a tile's wires and terminals, and how they are solved."""

    word_ohm: float
    bit_ohm: float
    driver_ohm: float
    sense_ohm: float
    exact: bool

    @classmethod
    def of(cls, array: ArrayEntries) -> Wires | None:
        """The wires of a card, or None where none has any resistance."""
        wires = cls(
            array.wire_word_ohm or 0.0, array.wire_bit_ohm or 0.0, array.driver_ohm or 0.0,
            array.sense_ohm or 0.0, array.wire_model == "exact",
        )
        return wires if wires.word_ohm or wires.bit_ohm or wires.ends_ohm else None

    @property
    def ends_ohm(self) -> float:
        """Resistance of both terminals together."""
        return self.driver_ohm + self.sense_ohm

    def solve(self, g_s: torch.Tensor, exact: bool) -> torch.Tensor:
        """Effective conductances (S) of tiles ``g_s`` (..., rows, columns), in S, float64."""
        model = effective_conductance if exact else ladder_conductance
        return model(
            g_s, self.word_ohm, self.bit_ohm, driver_ohm=self.driver_ohm, sense_ohm=self.sense_ohm
        )


def seen_through(
    wires: Wires,
    devices_s: torch.Tensor,
    reference_s: torch.Tensor | None,
    tiling: Tiling,
    exact: bool,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Effective conductances (S, float64) of an array's devices and reference cells.

    Shapes as of ``devices_s`` (devices, slices, out, in) and ``reference_s`` (slices, out_tiles,
    in).
    """
    seen = torch.empty_like(devices_s)
    seen_reference = None if reference_s is None else torch.empty_like(reference_s)
    groups: dict[tuple[int, int], list[tuple[int, slice, slice]]] = {}
    for tile, out in enumerate(tiling.out):
        for inner in tiling.inner:
            shape = (out.stop - out.start, inner.stop - inner.start)
            groups.setdefault(shape, []).append((tile, out, inner))
    for members in groups.values():
        parts = []
        for tile, out, inner in members:
            part = devices_s[:, :, out, inner]
            if reference_s is not None:
                part = torch.cat([part, reference_s[None, :, tile, None, inner]], dim=2)
            parts.append(part)
        solved = wires.solve(torch.stack(parts).transpose(-1, -2), exact).transpose(-1, -2)
        for (tile, out, inner), part in zip(members, solved, strict=True):
            seen[:, :, out, inner] = part[:, :, : out.stop - out.start]
            if seen_reference is not None:
                seen_reference[:, tile, inner] = part[0, :, -1]
    return seen, seen_reference


def attenuation(
    wires: Wires,
    devices_s: torch.Tensor,
    reference_s: torch.Tensor | None,
    tiling: Tiling,
    least_s: float,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Part of each cell's current that reaches its line, with shapes as of :func:`seen_through`.

    By ladders, where it is a factor of the cell's conductance: the quotient of exact ones is led
    by sneak paths in a cell that hardly conducts. Cells below ``least_s`` (S, > 0) count as such.
    """
    devices_s = devices_s.clamp(min=least_s)
    reference_s = None if reference_s is None else reference_s.clamp(min=least_s)
    seen, seen_reference = seen_through(wires, devices_s, reference_s, tiling, exact=False)
    if reference_s is None or seen_reference is None:
        return seen / devices_s, None
    return seen / devices_s, seen_reference / reference_s
