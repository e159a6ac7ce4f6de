"""From weights to conductances and back: what the devices of one array hold.

Orientation, once and for all: every matrix here is (out, in), as the weight. A *word line* carries
one input of the forward read (a column of the matrix), a *bit line* one output (a row).

With w the scaled weight, |w| <= 1 (``scaling``), x its magnitude or its place in [-1, 1], and
span = g_max - g_min:

==================  =====================================  =====================================
mapping             devices                                stored weight
==================  =====================================  =====================================
differential        g+ = g_min + max(w, 0) span            (g+ - g-) / span
                    g- = g_min + max(-w, 0) span
reference_column    g = g_mid + w span / 2, and one        2 (g - g_ref) / span
                    column of g_ref = g_mid per tile
offset              g = g_mid + w span / 2                 2 (g - g_mid) / span, g_mid digital
==================  =====================================  =====================================

Reference cells are tuned to g_mid, between two of ``cell.levels`` if need be.
Each slice of a weight is such a weight of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from eptsim.base.streams import Stream
from eptsim.cards import Card
from eptsim.cell.drift import compensation
from eptsim.crossbar.cells import DEVICES_PER_SLICE, CellCounts, holds_exactly, program_cells
from eptsim.crossbar.scaling import Scales, Tiling, digit_weights, scales_of, to_digits

Array = npt.NDArray[np.float64]
MAPPINGS = ("differential", "reference_column", "offset")


@dataclass(frozen=True)
class Programmed:
    """What one array holds after programming.

    Attributes
    ----------
    scales : Scales
        Digital factors between the weight and its cells.
    target : (slices, out, in)
        What the cells were aimed at, in [-1, 1]: ``stored_weights`` of perfect cells.
    devices_s : (devices, slices, out, in) or None
        Conductances (S), every device flaw included; None where the cells hold their targets.
    reference_s : (slices, out_tiles, in) or None
        Conductances (S) of the reference cells (mapping ``reference_column``).
    rescale : float
        Digital factor that compensates the drift.
    counts : CellCounts
        How many cells there are, failed to verify or are stuck.
    clipped : float
        Fraction of the weights beyond their scale.
    """

    scales: Scales
    target: Array
    devices_s: Array | None
    reference_s: Array | None
    rescale: float
    counts: CellCounts
    clipped: float


def program(weight: Array, card: Card, stream: Stream, tiling: Tiling) -> Programmed:
    """Program ``weight`` (out, in) with ``card``'s mapping, cells and flaws."""
    array, levels = card.array, card.cell.levels
    digits = digit_weights(array.slices, levels)
    scales = scales_of(weight, tiling, array.scaling, array.clip_percentile, digits)
    w = weight / (scales.scale * scales.relative(tiling))
    clipped = float(np.mean(np.abs(w) > 1.0 + 1e-12))
    w = np.clip(w, -1.0, 1.0)
    if array.mapping == "differential":
        parts = [to_digits(np.maximum(sign * w, 0.0), array.slices, levels) for sign in (1, -1)]
        target = parts[0] - parts[1]
    else:
        parts = [w[None] if array.slices == 1 else to_digits(0.5 * w + 0.5, array.slices, levels)]
        if array.slices > 1:
            parts[0] = 2.0 * parts[0] - 1.0
        target = parts[0]
    if holds_exactly(card):
        references = target.shape[2] * len(tiling.out) if array.mapping == "reference_column" else 0
        counts = CellCounts(len(parts) * target.size + array.slices * references)
        return Programmed(scales, target, None, None, 1.0, counts, clipped)
    devices, reference, factor, counts = _write(parts, card, stream, tiling)
    return Programmed(scales, target, devices, reference, factor, counts, clipped)


def perfect_devices(target: Array, card: Card, tiling: Tiling) -> tuple[Array, Array | None]:
    """Conductances (S) of cells that hold ``target`` (slices, out, in) exactly."""
    cell = card.cell
    span_s, mid_s = cell.g_max_s - cell.g_min_s, 0.5 * (cell.g_min_s + cell.g_max_s)
    if card.array.mapping == "differential":
        plus, minus = np.maximum(target, 0.0), np.maximum(-target, 0.0)
        return cell.g_min_s + span_s * np.stack([plus, minus]), None
    devices = mid_s + 0.5 * span_s * target[None]
    if card.array.mapping == "offset":
        return devices, None
    return devices, np.full((target.shape[0], len(tiling.out), target.shape[2]), mid_s)


def _write(
    parts: list[Array], card: Card, stream: Stream, tiling: Tiling
) -> tuple[Array, Array | None, float, CellCounts]:
    """Program the cells of every device and slice; see :class:`Programmed`."""
    cell = card.cell
    span_s, mid_s = cell.g_max_s - cell.g_min_s, 0.5 * (cell.g_min_s + cell.g_max_s)
    pair = card.array.mapping == "differential"
    slices, out, inner = parts[0].shape
    devices = np.empty((len(parts), slices, out, inner))
    reference = None
    if card.array.mapping == "reference_column":
        reference = np.empty((slices, len(tiling.out), inner))
    before_s = after_s = 0.0
    counts = CellCounts()
    for k in range(slices):
        for device, part in enumerate(parts):
            target_s = cell.g_min_s + part[k] * span_s if pair else mid_s + 0.5 * part[k] * span_s
            done = program_cells(target_s, card, stream, device + DEVICES_PER_SLICE * k)
            devices[device, k] = done.g_s
            before_s, after_s = before_s + done.before_s, after_s + float(done.g_s.sum())
            counts = counts + done.counts
        if reference is not None:
            target_s = np.full(reference.shape[1:], mid_s)
            plane = 2 + DEVICES_PER_SLICE * k
            done = program_cells(target_s, card, stream, plane, levelled=False)
            reference[k] = done.g_s
            counts = counts + done.counts
    factor = 1.0
    if cell.drift.compensation == "reference_read":
        factor = compensation(np.array(before_s), np.array(after_s))
    return devices, reference, factor, counts


def stored_weights(
    devices_s: Array, reference_s: Array | None, card: Card, tiling: Tiling, rescale: float
) -> Array:
    """Weights (slices, out, in), in [-1, 1] for perfect cells, that conductances (S) stand for.

    ``rescale`` multiplies them later; the digital g_mid of mapping ``offset``, which does not
    drift, is divided by it here.
    """
    cell = card.cell
    span_s = cell.g_max_s - cell.g_min_s
    if card.array.mapping == "differential":
        return np.asarray((devices_s[0] - devices_s[1]) / span_s)
    if reference_s is None:
        mid_s = 0.5 * (cell.g_min_s + cell.g_max_s) / rescale
        return np.asarray(2.0 * (devices_s[0] - mid_s) / span_s)
    stored: Array = np.empty_like(devices_s[0])
    for tile, lines in enumerate(tiling.out):
        stored[:, lines] = 2.0 * (devices_s[0][:, lines] - reference_s[:, tile, None]) / span_s
    return stored
