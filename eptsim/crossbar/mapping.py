"""From weights to conductances and back: what the devices of one array hold.

Orientation, once and for all: every matrix here is (out, in), as the weight. A *word line* carries
one input of the forward read (a column of the matrix), a *bit line* one output (a row).

With w the weight over the largest magnitude of the matrix, so that |w| <= 1, and span =
g_max - g_min:

==================  =====================================  =====================================
mapping             devices                                stored weight
==================  =====================================  =====================================
differential        g+ = g_min + max(w, 0) span            (g+ - g-) / span
                    g- = g_min + max(-w, 0) span
reference_column    g = g_mid + w span / 2, and one        2 (g - g_ref) / span
                    column of g_ref = g_mid per tile
offset              g = g_mid + w span / 2                 2 (g - g_mid) / span, g_mid digital
==================  =====================================  =====================================
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from eptsim.base.streams import Stream
from eptsim.cards import Card
from eptsim.cell.drift import drifted
from eptsim.cell.programming import programmed, stuck, to_levels
from eptsim.cell.read_noise import sigma_s

Array = npt.NDArray[np.float64]
MAPPINGS = ("differential", "reference_column", "offset")


@dataclass(frozen=True)
class Programmed:
    """What one array holds after programming, in units of the largest weight.

    Attributes
    ----------
    scale : float
        Largest magnitude of the target matrix (1 for an all-zero matrix).
    weight : (out, in)
        Stored weights over ``scale``, every device flaw included.
    noise_variance : (out, in) or float or None
        Variance of one read of each stored weight; a float where all cells share it.
    reference_variance : (out_tiles, in) or None
        Read variance of the reference column of each tile (mapping ``reference_column``).
    """

    scale: float
    weight: Array
    noise_variance: Array | float | None
    reference_variance: Array | None


def program_cells(target_s: Array, card: Card, stream: Stream, device: int) -> Array:
    """Conductances (S) that cells aimed at ``target_s`` (S, rows x lines) hold after programming.

    ``device`` numbers the device of the cell (0: g+, 1: g-, 2: reference), so that each has draws
    of its own.
    """
    cell = card.cell
    rows, lines = target_s.shape
    g_s = to_levels(target_s, cell.g_min_s, cell.g_max_s, cell.levels)
    if cell.programming.sigma > 0:
        normal = stream.normal(rows, lines, read=0, plane=device).astype(np.float64)
        g_s = programmed(g_s, cell.programming.sigma * cell.g_max_s, normal)
    if cell.drift.nu > 0 or cell.drift.nu_sigma > 0:
        normal = stream.normal(rows, lines, read=2, plane=device).astype(np.float64)
        drift = cell.drift
        g_s = drifted(g_s, drift.nu, drift.nu_sigma, cell.drift.time_s, drift.t0_s, normal)
    if cell.stuck.low > 0 or cell.stuck.high > 0:  # what is stuck does not drift either
        uniform = stream.uniform(rows, lines, read=1, plane=device).astype(np.float64)
        g_s = stuck(g_s, cell.g_min_s, cell.g_max_s, cell.stuck.low, cell.stuck.high, uniform)
    return g_s


def program(weight: Array, card: Card, stream: Stream, out_tiles: list[slice]) -> Programmed:
    """Program ``weight`` (out, in) with ``card``'s mapping, cells and flaws.

    ``out_tiles`` are the slices of the output lines that share one tile (and so one reference
    column).
    """
    scale = float(np.abs(weight).max()) or 1.0
    w = weight / scale
    cell = card.cell
    span_s = cell.g_max_s - cell.g_min_s
    if card.array.mapping == "differential":
        plus = program_cells(cell.g_min_s + np.maximum(w, 0.0) * span_s, card, stream, 0)
        minus = program_cells(cell.g_min_s + np.maximum(-w, 0.0) * span_s, card, stream, 1)
        noise = _variance((plus, minus), card, 1.0 / span_s)
        return Programmed(scale, (plus - minus) / span_s, noise, None)
    g_mid_s = 0.5 * (cell.g_min_s + cell.g_max_s)
    g_s = program_cells(g_mid_s + 0.5 * w * span_s, card, stream, 0)
    noise = _variance((g_s,), card, 2.0 / span_s)
    if card.array.mapping == "offset":
        return Programmed(scale, 2.0 * (g_s - g_mid_s) / span_s, noise, None)
    target_s = np.full((len(out_tiles), w.shape[1]), g_mid_s)
    reference_s = program_cells(target_s, card, stream, 2)
    stored = np.empty_like(g_s)
    for tile, lines in enumerate(out_tiles):
        stored[lines] = 2.0 * (g_s[lines] - reference_s[tile]) / span_s
    reference_noise = None
    if cell.read_noise.law != "none":
        sigma = sigma_s(reference_s, cell.read_noise.law, cell.read_noise.sigma, cell.g_max_s)
        reference_noise = (2.0 * sigma / span_s) ** 2
    return Programmed(scale, stored, noise, reference_noise)


def _variance(devices: tuple[Array, ...], card: Card, per_s: float) -> Array | float | None:
    noise = card.cell.read_noise
    if noise.law == "none":
        return None
    if noise.law == "constant":
        return len(devices) * (noise.sigma * card.cell.g_max_s * per_s) ** 2
    total = np.zeros_like(devices[0])
    for g_s in devices:
        total += (sigma_s(g_s, noise.law, noise.sigma, card.cell.g_max_s) * per_s) ** 2
    return total
