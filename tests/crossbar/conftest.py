"""A chip with every flaw, and a read written out in numpy, stage by stage (design, section 4)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pytest

from eptsim.base.streams import Stream
from eptsim.cards import Card, load_card
from eptsim.cell.flicker import fluctuation, modes
from eptsim.crossbar.crossbar import Crossbar

Array = np.ndarray
#: Read numbers of the draws of a cell.
ERROR, STUCK, DRIFT, LOW, HIGH, STUCK_LEVEL, VERIFY = range(7)


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


@pytest.fixture(scope="session")
def deep(flawed: Callable[..., Card]) -> Callable[..., Card]:
    """``deep(mapping, changes)``: the flaws of ``flawed`` and all others but wires."""

    def make(mapping: str = "differential", changes: Mapping[str, object] | None = None) -> Card:
        values: dict[str, object] = {
            "cell.levels": 5, "array.slices": 2, "array.scaling": "tile",
            "array.clip_percentile": 97.0, "cell.spread.g_min": 0.01, "cell.spread.g_max": 0.03,
            "cell.programming.sigma_linear": 0.03, "cell.programming.sigma_quadratic": -0.02,
            "cell.programming.verify_tolerance": 0.02, "cell.programming.verify_rounds": 3,
            "cell.read_noise.law": "sqrt", "cell.drift.compensation": "reference_read",
            "cell.retention.tau_s": 2e4, "cell.retention.stretch": 0.7,
            "cell.retention.level": 0.3, "cell.stuck.random": 0.04, "cell.flicker.sigma": 0.004,
            "cell.iv.law": "sinh", "cell.iv.v0_v": 0.15, "array.coding": "amplitude",
            "forward.offset_drift": 0.01, "transpose.offset_drift": 0.02,
        }
        return flawed(mapping, {**values, **(changes or {})})

    return make


@dataclass
class Cells:
    """Conductances (S) of one array and what they stand for."""

    scale: float
    relative: Array  # (out, in): scale of each weight over ``scale``
    place: list[float]  # what each slice counts for
    devices: Array  # (devices, slices, out, in)
    reference: Array | None  # (slices, out tiles, in); with mapping offset the digital one
    seen: Array  # devices and reference as the lines see them, through the wires
    seen_reference: Array | None
    part: Array  # how much of a fluctuation of theirs reaches the lines
    part_reference: Array | None
    rescale: float
    cells: int
    unverified: int
    stuck: int


def group_scale(size: Array, percentile: float | None) -> float:
    return float(np.quantile(size, (percentile or 100) / 100) or size.max())


def scale_weights(w: Array, card: Card) -> Array:
    """(out, in): the digital scale of each weight, 0 in a group of zeros."""
    array, size, result = card.array, np.abs(w), np.empty(w.shape)
    height, width = w.shape
    if array.scaling == "column":
        height = 1
    elif array.scaling == "tile":
        height, width = array.columns or height, array.rows or width
    for i in range(0, w.shape[0], height):
        for j in range(0, w.shape[1], width):
            part = np.s_[i : i + height, j : j + width]
            result[part] = group_scale(size[part], array.clip_percentile)
    return result


def split_digits(x: Array, card: Card) -> tuple[list[Array], list[float]]:
    """Digits of ``x`` in [0, 1] over the largest digit, and what each counts for."""
    if (count := card.array.slices) == 1:
        return [x], [1.0]
    base = card.cell.levels
    number = np.round(x * (base**count - 1)).astype(np.int64)
    places = [base ** (count - 1 - k) for k in range(count)]
    digits = [number // place % base / (base - 1) for place in places]
    return digits, [place * (base - 1) / (base**count - 1) for place in places]


def program_cell(
    target: Array, card: Card, stream: Stream, plane: int, levels: int | None
) -> dict[str, Array]:
    cell, shape, entry = card.cell, target.shape, card.cell.programming

    def draw(read: int) -> Array:
        return stream.normal(*shape, read=read, plane=plane).astype(float)

    g = target
    if levels is not None:
        step = (cell.g_max_s - cell.g_min_s) / (levels - 1)
        g = cell.g_min_s + step * np.round((g - cell.g_min_s) / step)
    wanted = g
    low, high = np.zeros(shape), np.full(shape, np.inf)
    if cell.spread.g_min > 0 or cell.spread.g_max > 0:
        low = np.maximum(cell.g_min_s + cell.g_max_s * cell.spread.g_min * draw(LOW), 0)
        high = np.maximum(cell.g_max_s + cell.g_max_s * cell.spread.g_max * draw(HIGH), 0)
        low, high = np.where(low > high, (low + high) / 2, [low, high])
    aim, x = np.clip(g, low, high), g / cell.g_max_s
    poly = entry.sigma + entry.sigma_linear * x + entry.sigma_quadratic * x**2
    sigma = np.maximum(poly * cell.g_max_s, 0)
    if entry.table is not None:
        sigma = np.interp(g, entry.table.x, entry.table.y)
    g = np.maximum(aim + sigma * draw(ERROR), 0)
    failed = np.zeros(shape, bool)
    if entry.verify_tolerance is not None:
        failed = np.abs(g - wanted) > entry.verify_tolerance * cell.g_max_s
        for attempt in range(1, entry.verify_rounds):
            again = np.maximum(aim + sigma * draw(VERIFY + attempt), 0)
            g = np.where(failed, again, g)
            failed = failed & (np.abs(g - wanted) > entry.verify_tolerance * cell.g_max_s)
    nu = np.maximum(cell.drift.nu + cell.drift.nu_sigma * draw(DRIFT), 0)
    now = g * (cell.drift.time_s / cell.drift.t0_s) ** -nu
    if cell.retention.tau_s is not None:
        end = cell.g_min_s + cell.retention.level * (cell.g_max_s - cell.g_min_s)
        age = (cell.drift.time_s / cell.retention.tau_s) ** cell.retention.stretch
        now = end + (now - end) * np.exp(-age)
    u = stream.uniform(*shape, read=STUCK, plane=plane).astype(float)
    level = stream.uniform(*shape, read=STUCK_LEVEL, plane=plane).astype(float)
    at_random = (u >= cell.stuck.low) & (u < cell.stuck.low + cell.stuck.random)
    where = [u < cell.stuck.low, u > 1 - cell.stuck.high, at_random]
    values = [
        np.full(shape, cell.g_min_s), np.full(shape, cell.g_max_s),
        cell.g_min_s + level * (cell.g_max_s - cell.g_min_s),
    ]
    g, now = (np.select(where, values, before) for before in (g, now))
    return {"before": g, "now": now, "failed": failed, "stuck": np.any(where, axis=0)}


See = Callable[[Array, Array | None, Card], tuple[Array, Array | None, Array, Array | None]]


def without_wires(devices: Array, reference: Array | None, card: Card) -> tuple[Array, ...]:
    return devices, reference, np.ones_like(devices), np.ones(card.array.slices)


def write_cells(w: Array, card: Card, seed: int, path: str, see: See) -> Cells:
    cell, pair = card.cell, card.array.mapping == "differential"
    stream, scales = Stream.of(seed, path, "program"), scale_weights(w, card)
    scale = scales.max() or 1.0
    scales[scales == 0] = scale
    x = np.clip(w / scales, -1, 1)
    span, middle = cell.g_max_s - cell.g_min_s, (cell.g_max_s + cell.g_min_s) / 2
    parts = [np.where(s * x > 0, s * x, 0) for s in (1, -1)] if pair else [(x + 1) / 2]
    done = []
    for device, part in enumerate(parts):
        digits, place = split_digits(part, card)
        targets = [cell.g_min_s + span * digit for digit in digits]
        done += [
            program_cell(g, card, stream, device + 3 * k, cell.levels)
            for k, g in enumerate(targets)
        ]
    devices = np.stack([found["now"] for found in done])
    devices = devices.reshape(len(parts), len(place), *w.shape)
    factor = 1.0
    if cell.drift.compensation == "reference_read":
        factor = sum(d["before"].sum() for d in done) / sum(d["now"].sum() for d in done)
    reference = None
    if not pair:
        tiles = -(-w.shape[0] // (card.array.columns or w.shape[0]))
        digital = middle / factor  # the factor multiplies what does not drift, too
        reference = np.full((len(place), tiles, w.shape[1]), digital)
        if card.array.mapping == "reference_column":
            columns = [
                program_cell(g * factor, card, stream, 2 + 3 * k, None)
                for k, g in enumerate(reference)
            ]
            reference = np.stack([column["now"] for column in columns])
            done += columns
    counts = (sum(int(d[key].sum()) for d in done) for key in ("failed", "stuck"))
    size = sum(d["now"].size for d in done)
    found = see(devices, reference, card)
    return Cells(
        scale, scales / scale, place, devices, reference, *found, factor, size, *counts
    )


@dataclass
class Written:
    """One array read by the book: float64, one loop per slice and tile segment."""

    array: Crossbar
    cells: Cells

    @property
    def per_s(self) -> float:
        """Weight, over its scale, per conductance of one device."""
        cell = self.array.card.cell
        return (1.0 if len(self.cells.devices) == 2 else 2.0) / (cell.g_max_s - cell.g_min_s)

    @property
    def owner(self) -> Array:
        """Tile of each output line."""
        return np.arange(self.array.shape[0]) // (self.array.card.array.columns or 2**24)

    def slice_weights(self, time_s: float | None = None) -> list[Array]:
        """Weight (out, in) that each slice holds, over its scale; with 1/f noise at a time."""
        seen, reference = self.cells.seen, self.cells.seen_reference
        result = []
        for k in range(seen.shape[1]):
            g = seen[0, k] - (seen[1, k] if len(seen) == 2 else reference[k][self.owner])
            if time_s is not None and self.array.card.cell.flicker.sigma > 0:
                g = g + self.flicker(np.sqrt((seen[:, k] ** 2).sum(axis=0)), time_s, 2 * k)
                if self.array.card.array.mapping == "reference_column":
                    g = g - self.flicker(reference[k], time_s, 2 * k + 1)[self.owner]
            result.append(g * self.per_s)
        return result

    def flicker(self, size: Array, time_s: float, plane: int) -> Array:
        entry = self.array.card.cell.flicker
        stream = Stream.of(self.array.seed, self.array.path, "flicker")
        parts = modes(entry.fastest_s, entry.slowest_s)
        return entry.sigma * size * fluctuation(stream, *size.shape, time_s, parts, plane)

    def stored(self) -> Array:
        """The weight (out, in) that the cells hold, in the weight's units."""
        parts = zip(self.cells.place, self.slice_weights(), strict=True)
        total = sum(place * part for place, part in parts)
        return total * self.cells.relative * self.cells.scale * self.cells.rescale

    def variances(self, g: Array, part: Array) -> Array:
        """Variance of one read of single cells, of which ``part`` reaches their lines."""
        noise, top = self.array.card.cell.read_noise, self.array.card.cell.g_max_s
        if noise.law == "none":
            return np.zeros_like(g)
        sigma = np.full_like(g, noise.sigma * top)
        if noise.law == "proportional":
            sigma = noise.sigma * g
        elif noise.law == "sqrt":
            sigma = noise.sigma * np.sqrt(g * top)
        elif noise.law == "table":
            sigma = np.interp(g, noise.table.x, noise.table.y)
        return (sigma * self.per_s * part) ** 2

    def read(
        self, direction: str, x: Array, policy: str, held: float | None, read: int, row: int,
        time_s: float = 0.0, reference: Array | None = None,
    ) -> Array:
        card, forward, cells = self.array.card, direction == "forward", self.cells
        entry = card.forward if forward else card.transpose
        size = (card.array.rows if forward else card.array.columns) or x.shape[1]
        x, factor = x.astype(np.float64), cells.relative
        if card.array.scaling == "column" and not forward:
            x, factor = x * cells.relative[:, 0], np.ones_like(factor)
        factor = factor.T if forward else factor
        u, r = self.drive(x, entry, policy, held)
        full = 12.0 if entry.output_range is None else entry.output_range
        gain = self.array.stage(direction).gain.numpy()
        offset = self.array.stage(direction).offset_at(time_s).numpy()
        total, index = 0.0, 0
        for k, weight in enumerate(self.slice_weights(time_s)):
            matrix = weight.T if forward else weight
            for start in range(0, x.shape[1], size):
                part = slice(start, start + size)
                v = u[:, part] @ matrix[part]
                v = v + self.noise(direction, u, part, k, index, read, row, entry.line_noise * full)
                v = v * gain[index] + offset[index]
                if entry.adc_bits is not None:
                    lsb = full / max(2 ** (entry.adc_bits - 1) - 1, 1)
                    v = np.clip(np.round(v / lsb) * lsb, -full, full)
                elif entry.output_range is not None:
                    v = np.clip(v, -full, full)
                v = v - (0.0 if reference is None else reference[index])
                total = total + v * cells.place[k] * factor[start]
                index += 1
        return total * r * cells.scale * cells.rescale

    def drive(
        self, x: Array, entry: object, policy: str, held: float | None
    ) -> tuple[Array, Array]:
        """What the cells get of the inputs, over the range, and the range of each vector."""
        limit = entry.input_range
        if policy == "per_vector":
            r = np.abs(x).max(axis=1, keepdims=True)
            r[r == 0] = 1.0
        else:
            r = np.full((x.shape[0], 1), held if policy == "held" else limit or 1.0)
        r = np.minimum(r, limit or np.inf)
        if entry.dac_bits is None:
            return self.bend((np.clip(x, -limit, limit) if limit is not None else x) / r), r
        steps = max(2 ** (entry.dac_bits - 1) - 1, 1)
        return self.bend(np.round(np.clip(x, -r, r) / r * steps) / steps), r

    def bend(self, u: Array) -> Array:
        """Current of a cell driven at ``u`` times the read voltage, over that at the voltage."""
        array, iv = self.array.card.array, self.array.card.cell.iv
        if array.coding == "pulse_width" or iv.law == "linear":
            return u
        u, top = np.clip(u, -1, 1), array.read_voltage_v
        if iv.law == "sinh":
            return np.sinh(u * top / iv.v0_v) / np.sinh(top / iv.v0_v)
        if iv.law == "cubic":
            return u * (1 + (u * top / iv.v0_v) ** 2) / (1 + (top / iv.v0_v) ** 2)
        curve = np.interp([*np.abs(u * top).ravel(), top], iv.table.x, iv.table.y)
        return np.sign(u) * curve[:-1].reshape(u.shape) / curve[-1]

    def noise(
        self, direction: str, u: Array, part: slice, k: int, index: int, read: int, row: int,
        line: float,
    ) -> Array:
        card, cells, forward = self.array.card, self.cells, direction == "forward"
        variance = self.variances(cells.devices[:, k], cells.part[:, k]).sum(axis=0)
        total = u[:, part] ** 2 @ (variance.T if forward else variance)[part] + line**2
        at = {"first_row": row, "read": read, "plane": index}
        shared = 0.0
        if card.array.mapping == "reference_column":
            column = self.variances(cells.reference[k], cells.part_reference[k])  # (tiles, in)
            if forward:
                sigma = np.sqrt(u[:, part] ** 2 @ column[:, part].T)
                draws = Stream.of(self.array.seed, self.array.path, "reference_column").normal(
                    *sigma.shape, **at
                )
                shared = (sigma * draws)[:, self.owner]
            else:
                tile = self.owner[part.start]
                total = total + u[:, part].sum(axis=1, keepdims=True) ** 2 * column[tile]
        stream = Stream.of(self.array.seed, self.array.path, direction, "read")
        return shared + np.sqrt(total) * stream.normal(*total.shape, **at)


@pytest.fixture(scope="session")
def written() -> Callable[..., Written]:
    """``written(array, weight)``: the same array, its cells programmed and read in numpy.

    ``see`` says what the wires make of the conductances.
    """

    def make(array: Crossbar, weight: Array, see: See = without_wires) -> Written:
        w = weight.astype(np.float64)
        return Written(array, write_cells(w, array.card, array.seed, array.path, see))

    return make
