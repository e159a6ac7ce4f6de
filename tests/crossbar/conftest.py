"""A chip with every flaw, and a read written out in numpy, stage by stage (design, section 4)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pytest

from eptsim.base.streams import Stream
from eptsim.cards import Card, load_card
from eptsim.crossbar.crossbar import Crossbar

Array = np.ndarray


@pytest.fixture(scope="session")
def ideal() -> Card:
    return load_card("ideal")


@pytest.fixture(scope="session")
def flawed(ideal: Card) -> Callable[..., Card]:
    """``flawed(mapping, changes)``: every flaw of cells, lines and converters, small tiles."""

    def make(mapping: str = "differential", changes: Mapping[str, object] | None = None) -> Card:
        values: dict[str, object] = {
            "cell.g_min_s": 5e-7, "cell.g_max_s": 2e-5, "cell.levels": 33,
            "cell.programming.sigma": 0.02, "cell.read_noise.law": "proportional",
            "cell.read_noise.sigma": 0.03, "cell.drift.nu": 0.02, "cell.drift.nu_sigma": 0.005,
            "cell.stuck.low": 0.03, "cell.stuck.high": 0.02,
            "array.rows": 7, "array.columns": 5, "array.mapping": mapping,
        }
        for direction, (dac, adc, top, full) in {
            "forward": (6, 7, 1.5, 3.0), "transpose": (5, 8, 1.2, 2.0)
        }.items():
            values |= {
                f"{direction}.dac_bits": dac, f"{direction}.adc_bits": adc,
                f"{direction}.input_range": top, f"{direction}.output_range": full,
                f"{direction}.offset": 0.02, f"{direction}.gain": 0.05,
                f"{direction}.line_noise": 0.01,
            }
        return ideal.override({**values, **(changes or {})})

    return make


@dataclass
class Cells:
    """Conductances of one array in units of its largest weight, (out, in) each."""

    scale: float
    devices: list[Array]
    """Conductances (S) of the devices of each weight; their signed sum is the weight."""
    reference: Array | None
    """Conductance (S) of each reference cell, (out tiles, in)."""
    span: float

    def noise_per_device(self, card: Card, g: Array) -> Array:
        factor = 1.0 if len(self.devices) == 2 else 2.0
        noise = card.cell.read_noise
        base = np.full_like(g, card.cell.g_max_s) if noise.law == "constant" else g
        return (factor * noise.sigma * base / self.span) ** 2 * (noise.law != "none")

    def weight(self, tile: int) -> Array:
        if len(self.devices) == 2:
            return (self.devices[0] - self.devices[1]) / self.span
        g = self.devices[0]
        if self.reference is None:
            raise AssertionError
        return 2.0 * (g - self.reference[np.arange(g.shape[0]) // tile]) / self.span


def program_cell(target: Array, card: Card, stream: Stream, device: int) -> Array:
    cell, shape = card.cell, target.shape
    g = target
    if cell.levels is not None:
        step = (cell.g_max_s - cell.g_min_s) / (cell.levels - 1)
        g = cell.g_min_s + step * np.round((g - cell.g_min_s) / step)
    error = stream.normal(*shape, read=0, plane=device).astype(float)
    g = g + cell.programming.sigma * cell.g_max_s * error
    g = np.where(g < 0, 0, g)
    spread = stream.normal(*shape, read=2, plane=device).astype(float)
    nu = cell.drift.nu + cell.drift.nu_sigma * spread
    g = g * (cell.drift.time_s / cell.drift.t0_s) ** -np.where(nu < 0, 0, nu)
    u = stream.uniform(*shape, read=1, plane=device).astype(float)
    g = np.where(u < cell.stuck.low, cell.g_min_s, g)
    return np.where(u > 1 - cell.stuck.high, cell.g_max_s, g)


def write_cells(w: Array, card: Card, seed: int, path: str) -> Cells:
    cell, mapping = card.cell, card.array.mapping
    stream = Stream.of(seed, path, "program")
    scale = np.abs(w).max() or 1.0
    span, middle = cell.g_max_s - cell.g_min_s, (cell.g_max_s + cell.g_min_s) / 2
    if mapping == "differential":
        targets = [cell.g_min_s + span * np.where(s * w > 0, s * w, 0) / scale for s in (1, -1)]
        devices = [program_cell(t, card, stream, n) for n, t in enumerate(targets)]
        return Cells(scale, devices, None, span)
    devices = [program_cell(middle + span / 2 * w / scale, card, stream, 0)]
    tiles = -(-w.shape[0] // (card.array.columns or w.shape[0]))
    target = np.full((tiles, w.shape[1]), middle)
    if mapping == "reference_column":
        return Cells(scale, devices, program_cell(target, card, stream, 2), span)
    return Cells(scale, devices, target, span)


@dataclass
class Written:
    """One array read by the book: float64, one loop per tile segment."""

    array: Crossbar
    cells: Cells

    def stored(self) -> Array:
        """The weight (out, in) that the cells hold, in the weight's units."""
        tile = self.array.card.array.columns or self.array.shape[0]
        return self.cells.weight(tile) * self.cells.scale

    def read(
        self, direction: str, x: Array, policy: str, held: float | None, read: int, row: int
    ) -> Array:
        card, forward = self.array.card, direction == "forward"
        entry = card.forward if forward else card.transpose
        size = card.array.rows if forward else card.array.columns
        x = x.astype(np.float64)
        stored = self.stored() / self.cells.scale
        matrix = stored.T if forward else stored
        size = size or matrix.shape[0]
        u, r = self.drive(x, entry, policy, held)
        full = 12.0 if entry.output_range is None else entry.output_range
        stage = self.array.stage(direction)
        total = np.zeros((x.shape[0], matrix.shape[1]))
        for tile, start in enumerate(range(0, matrix.shape[0], size)):
            part = slice(start, start + size)
            v = u[:, part] @ matrix[part]
            v = v + self.noise(direction, u, part, tile, read, row, entry.line_noise * full)
            v = v * stage.gain[tile].numpy() + stage.offset[tile].numpy()
            if entry.adc_bits is not None:
                lsb = full / max(2 ** (entry.adc_bits - 1) - 1, 1)
                v = np.clip(np.round(v / lsb) * lsb, -full, full)
            elif entry.output_range is not None:
                v = np.clip(v, -full, full)
            total += v
        return total * r * self.cells.scale

    def drive(
        self, x: Array, entry: object, policy: str, held: float | None
    ) -> tuple[Array, Array]:
        """Drive voltages in units of the range, and the range of each vector."""
        limit = entry.input_range
        if policy == "per_vector":
            r = np.abs(x).max(axis=1, keepdims=True)
            r[r == 0] = 1.0
        else:
            r = np.full((x.shape[0], 1), held if policy == "held" else limit or 1.0)
        r = np.minimum(r, limit or np.inf)
        clipped = np.clip(x, -limit, limit) if limit is not None else x
        if entry.dac_bits is None:
            return clipped / r, r
        steps = max(2 ** (entry.dac_bits - 1) - 1, 1)
        return np.round(np.clip(x, -r, r) / r * steps) / steps, r

    def noise(
        self, direction: str, u: Array, part: slice, tile: int, read: int, row: int, line: float
    ) -> Array:
        card, cells, forward = self.array.card, self.cells, direction == "forward"
        variance = sum(cells.noise_per_device(card, g) for g in cells.devices)
        variance = (variance.T if forward else variance)[part]
        total = u[:, part] ** 2 @ variance + line**2
        at = {"first_row": row, "read": read, "plane": tile}
        shared = 0.0
        if card.array.mapping == "reference_column":
            column = cells.noise_per_device(card, cells.reference)  # (out tiles, in)
            if forward:
                sigma = np.sqrt(u[:, part] ** 2 @ column[:, part].T)
                draws = Stream.of(self.array.seed, self.array.path, "reference_column").normal(
                    *sigma.shape, **at
                )
                owner = np.arange(self.array.shape[0]) // card.array.columns
                shared = (sigma * draws)[:, owner]
            else:
                total = total + u[:, part].sum(axis=1, keepdims=True) ** 2 * column[tile]
        stream = Stream.of(self.array.seed, self.array.path, direction, "read")
        return shared + np.sqrt(total) * stream.normal(*total.shape, **at)


@pytest.fixture(scope="session")
def written() -> Callable[[Crossbar, Array], Written]:
    """``written(array, weight)``: the same array, its cells programmed and read in numpy."""

    def make(array: Crossbar, weight: Array) -> Written:
        cells = write_cells(weight.astype(np.float64), array.card, array.seed, array.path)
        return Written(array, cells)

    return make
