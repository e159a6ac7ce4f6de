"""From the conductances of one array to what its reads use: weights, noise, 1/f noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from eptsim.base.streams import Stream
from eptsim.cards import Card
from eptsim.cell.flicker import modes
from eptsim.crossbar.cell_noise import CellNoise, through_wires, variance
from eptsim.crossbar.conduction import Wires, attenuation, seen_through
from eptsim.crossbar.flicker import Flicker
from eptsim.crossbar.mapping import Programmed, perfect_devices, stored_weights
from eptsim.crossbar.scaling import Scales, Tiling

#: Conductance over the highest one, below which all cells are attenuated alike.
_LEAST = 1e-6


@dataclass(frozen=True)
class Content:
    """Conductances of one array, in units of ``cell.g_max_s``.

    Attributes
    ----------
    cells : (devices, slices, out, in)
        g+ and g- of each weight, or its only device.
    reference : (slices, out_tiles, in) or None
        The reference cells of each tile.
    """

    cells: torch.Tensor
    reference: torch.Tensor | None


@dataclass(frozen=True)
class Derived:
    """What the reads use of the conductances.

    Attributes
    ----------
    weights : (slices, out, in), float64
        Stored weights, as the lines see them.
    noise : CellNoise or None
        Read noise of the cells.
    reference_noise : (slices, out_tiles, in) or None
        Variance of the reference cells.
    flicker : Flicker or None
        1/f noise of the cells.
    """

    weights: torch.Tensor
    noise: CellNoise | None
    reference_noise: torch.Tensor | None
    flicker: Flicker | None


def content_of(done: Programmed, like: torch.Tensor, card: Card) -> Content | None:
    """Conductances to keep, with dtype and device of ``like``; None where they need not be.

    Cells that hold their targets exactly are told by the stored weights.
    """
    if done.devices_s is None:
        return None

    def keep(g_s: np.ndarray | None) -> torch.Tensor | None:
        if g_s is None:
            return None
        return torch.from_numpy(g_s / card.cell.g_max_s).to(like.device, like.dtype)

    cells = keep(done.devices_s)
    assert cells is not None
    return Content(cells, keep(done.reference_s))


def perfect_content(target: torch.Tensor, card: Card, tiling: Tiling) -> Content:
    """Conductances of cells that hold ``target`` (slices, out, in) exactly."""
    devices_s, reference_s = perfect_devices(target.double().cpu().numpy(), card, tiling)
    scale = card.cell.g_max_s
    reference = None if reference_s is None else torch.from_numpy(reference_s / scale)
    return Content(
        torch.from_numpy(devices_s / scale).to(target.device, target.dtype),
        None if reference is None else reference.to(target.device, target.dtype),
    )


def needs_content(card: Card) -> bool:
    """Whether a read depends on single conductances even where all cells are perfect."""
    law = card.cell.read_noise.law
    return (
        Wires.of(card.array) is not None
        or card.cell.flicker.sigma > 0
        or law not in ("none", "constant")
        or (law != "none" and card.array.mapping == "reference_column")
    )


def derive(
    content: Content,
    card: Card,
    tiling: Tiling,
    stream: Stream,
    *,
    exact: bool,
    rescale: float = 1.0,
) -> Derived:
    """Weights and noise of ``content``; ``exact`` solves the wires exactly, else by ladders.

    ``rescale`` is the digital factor that compensates the drift.
    """
    unit = card.cell.g_max_s
    wires = Wires.of(card.array)
    cells, reference = content.cells, content.reference
    seen_s, seen_reference_s = _seen(content, card, tiling, exact=exact)
    weights = _weights((seen_s, seen_reference_s), card, tiling, rescale)

    def back(g_s: torch.Tensor | None) -> torch.Tensor | None:
        return None if g_s is None else (g_s / unit).to(cells.device, cells.dtype)

    seen, seen_reference = cells, reference
    if wires is not None:
        seen_back = back(seen_s)
        assert seen_back is not None
        seen, seen_reference = seen_back, back(seen_reference_s)
    per_g = _per_conductance(card)
    part = part_reference = None
    if wires is not None and card.cell.read_noise.acts:
        cells_s, reference_s = _in_siemens(content, card)
        part, part_reference = (
            None if found is None else found.to(cells.device, cells.dtype)
            for found in attenuation(wires, cells_s, reference_s, tiling, _LEAST * unit)
        )
    noise = _noise(card, cells, part, per_g)
    reference_noise = None
    if noise is not None and reference is not None:
        reference_noise = variance(reference[None], noise)
        if part_reference is not None:
            reference_noise = through_wires(reference_noise, part_reference)
    flicker = None
    if card.cell.flicker.sigma > 0:
        entry = card.cell.flicker
        flicker = Flicker(
            entry.sigma, modes(entry.fastest_s, entry.slowest_s), stream, per_g, seen,
            seen_reference, tiling,
        )
    return Derived(weights, noise, reference_noise, flicker)


def weights_of(
    content: Content, card: Card, tiling: Tiling, *, exact: bool, rescale: float
) -> torch.Tensor:
    """Stored weights (slices, out, in), float64, of ``content``, without the rest of it."""
    return _weights(_seen(content, card, tiling, exact=exact), card, tiling, rescale)


def _seen(
    content: Content, card: Card, tiling: Tiling, *, exact: bool
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Conductances (S, float64) of cells and reference as the lines see them."""
    cells_s, reference_s = _in_siemens(content, card)
    wires = Wires.of(card.array)
    if wires is None:
        return cells_s, reference_s
    return seen_through(wires, cells_s, reference_s, tiling, exact)


def _in_siemens(content: Content, card: Card) -> tuple[torch.Tensor, torch.Tensor | None]:
    unit, reference = card.cell.g_max_s, content.reference
    return (
        content.cells.double().cpu() * unit,
        None if reference is None else reference.double().cpu() * unit,
    )


def _weights(
    seen: tuple[torch.Tensor, torch.Tensor | None], card: Card, tiling: Tiling, rescale: float
) -> torch.Tensor:
    cells_s, reference_s = seen
    return torch.from_numpy(
        stored_weights(
            cells_s.numpy(), None if reference_s is None else reference_s.numpy(), card, tiling,
            rescale,
        )
    )


def _per_conductance(card: Card) -> float:
    """Stored weight per conductance of one device, in units of ``g_max_s``."""
    cell = card.cell
    devices = 1.0 if card.array.mapping == "differential" else 2.0
    return devices * cell.g_max_s / (cell.g_max_s - cell.g_min_s)


def _noise(
    card: Card, cells: torch.Tensor, part: torch.Tensor | None, per_g: float
) -> CellNoise | None:
    """Read noise of ``cells``, of which ``part`` reaches the lines (None: all)."""
    entry = card.cell.read_noise
    if not entry.acts:
        return None
    noise = CellNoise(entry, card.cell.g_max_s, per_g, cells, cells.shape[0])
    if part is None and entry.law != "table":
        return noise
    total = torch.zeros_like(cells[0])
    for n, own in enumerate(cells):
        one = variance(own[None], noise)
        total += one if part is None else through_wires(one, part[n])
    return CellNoise(entry, card.cell.g_max_s, per_g, None, cells.shape[0], total)


def uniform_noise(card: Card) -> CellNoise | None:
    """Read noise that all cells share, where no conductance is needed for it."""
    entry = card.cell.read_noise
    if not entry.acts:
        return None
    devices = 2 if card.array.mapping == "differential" else 1
    return CellNoise(entry, card.cell.g_max_s, _per_conductance(card), None, devices)


def combine(weights: torch.Tensor, scales: Scales, tiling: Tiling, rescale: float) -> torch.Tensor:
    """The matrix (out, in), float64, that stored ``weights`` (slices, out, in) stand for."""
    digits = [float(digit) * scales.scale * rescale for digit in scales.digits]
    parts = weights.double().cpu()
    total = parts[0] * digits[0]
    for digit, part in zip(digits[1:], parts[1:], strict=True):
        total.add_(part, alpha=digit)
    if scales.tile is not None or scales.column is not None:
        total.mul_(torch.from_numpy(scales.relative(tiling)))
    return total
