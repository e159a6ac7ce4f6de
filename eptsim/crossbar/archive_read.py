"""Read one array back from an HDF5 group, as it was or under a card with other converters.

Every value is checked before it is used. What a read multiplies by is taken as held: no wires are
solved, but where a card asks for noise, or for weights, that the file does not hold.
"""

from __future__ import annotations

import math
from dataclasses import replace

import torch

from eptsim.base.h5 import Reader
from eptsim.base.streams import Stream
from eptsim.cards import Card
from eptsim.cards.saved import changed_entries
from eptsim.cell.flicker import modes
from eptsim.crossbar.archive import ArrayState
from eptsim.crossbar.cell_noise import CellNoise
from eptsim.crossbar.checks import DEVICES
from eptsim.crossbar.conduction import Wires
from eptsim.crossbar.derived import Content, Derived
from eptsim.crossbar.flicker import Flicker
from eptsim.crossbar.memory import Memory
from eptsim.crossbar.planning import Correction
from eptsim.crossbar.record import ProgrammingRecord
from eptsim.crossbar.scaling import Scales, Tiling
from eptsim.crossbar.stages import DIRECTIONS, RANGE_POLICIES, LineStage, line_stage

DTYPES = {"float32": torch.float32, "float64": torch.float64}
"""Names of the dtypes that an array reads in."""


class ArrayReader:
    """Reads one array back, as it was or under another card.

    Parameters
    ----------
    reader : Reader
        The group of the array.
    saved, card : Card
        Its card, and the one to load it under, which agrees in what made the cells.
    device : torch.device
        Where its reads are to run.
    """

    def __init__(self, reader: Reader, saved: Card, card: Card, device: torch.device) -> None:
        self.reader = reader
        self.card = card
        self.device = device
        self.changed = changed_entries(saved, card)
        self.name = reader.text("dtype", DTYPES)
        self.dtype = DTYPES[self.name]
        self.seed = reader.integer("seed")
        self.path = reader.text("path")
        shape = reader.integers("shape")
        if len(shape) != 2 or min(shape) < 1:
            raise reader.refuse("shape", str(shape), "two sizes (out, in), 1 or more")
        self.shape = (shape[0], shape[1])
        self.tiling = Tiling.of(self.shape, card.array)
        for key, parts in (
            ("out_tile_starts", self.tiling.out), ("in_tile_starts", self.tiling.inner)
        ):  # fmt: skip
            found, wanted = reader.integers(key), tuple(part.start for part in parts)
            if found != wanted:
                raise reader.refuse(key, str(found), f"{wanted}, as the card cuts its tiles")

    def read(self) -> tuple[ArrayState, tuple[str, ...]]:
        """The array, and the directions whose calibration the other card made void."""
        reader, dropped = self.reader, []
        lines: dict[str, LineStage] = {}
        corrections: dict[str, Correction] = {}
        held: dict[str, float | None] = {}
        next_row: dict[str, int] = {}
        for direction in DIRECTIONS:
            group = reader.sub(direction)
            lines[direction] = self._lines(group, direction)
            next_row[direction] = group.integer("next_row")
            held[direction] = None
            if group.flag("range_held"):
                held[direction] = group.number("held_range", above=0.0)
            if not group.flag("calibrated"):
                continue
            if any(key.startswith(f"{direction}.") for key in self.changed):
                dropped.append(direction)
                continue
            shape = tuple(lines[direction].offset.shape)
            corrections[direction] = Correction(
                self._tensor(group, "offset_correction", shape, "1"),
                self._tensor(group, "gain_correction", shape, "1", above=0.0),
            )
        memory = self._memory({stage.exact for stage in lines.values()})
        fused, device = reader.flag("fused"), reader.text("device", DEVICES)
        fused = self.device.type == "cpu" and (fused or device != "cpu")
        state = ArrayState(
            self.card, self.seed, self.path, reader.text("range_policy", RANGE_POLICIES), fused,
            memory, lines, corrections, held, next_row, reader.number("time_s"),
        )  # fmt: skip
        return state, tuple(dropped)

    def _tensor(
        self, group: Reader, name: str, shape: tuple[int, ...], units: str,
        least: float = -math.inf, above: float = -math.inf,
    ) -> torch.Tensor:  # fmt: skip
        data = group.array(name, shape, self.name, units, least=least, above=above)
        return torch.from_numpy(data).to(self.device)

    def _lines(self, group: Reader, direction: str) -> LineStage:
        """The stage of the card, with the flaws that were drawn for it once."""
        shape = self.tiling.lines(direction, self.card.array.slices)
        stage = line_stage(
            self.card, direction, self.seed, self.path, shape, self.dtype, self.device
        )
        offset = self._tensor(group, "offset", shape, "1")
        gain = self._tensor(group, "gain", shape, "1")
        if {f"{direction}.offset", f"{direction}.output_range"}.isdisjoint(self.changed):
            stage = replace(stage, offset=offset)
        if f"{direction}.gain" not in self.changed:
            stage = replace(stage, gain=gain)
        return stage

    def _memory(self, exact: set[bool]) -> Memory:
        reader, slices = self.reader, self.card.array.slices
        content = self._content()
        stored = combined = None
        shape = (slices, *self.shape)
        if reader.flag("weights_held"):
            stored = self._tensor(reader, "weights", shape, "1")
        if reader.flag("matrix_held"):
            combined = self._tensor(reader, "matrix", (1, *self.shape), "1")
        if stored is None and combined is None:
            raise reader.refuse("weights_held", "neither weights nor matrix", "one of them")
        memory = Memory(
            self.card, self.seed, self.path, exact, self.dtype, self.device, self._scales(),
            self.tiling, reader.number("drift_factor", above=0.0), content, self._record(),
            Derived(torch.empty(0, dtype=torch.float64), None, None, None), stored, combined,
            reader.flag("stale"),
        )  # fmt: skip
        wired = Wires.of(self.card.array) is not None
        noise_changed = any(
            key.startswith(("cell.read_noise.", "cell.flicker.")) for key in self.changed
        )
        if wired and not noise_changed:
            memory.derived = self._seen()
        else:
            memory.derive_noise()
        memory.serve(exact)
        return memory

    def _content(self) -> Content | None:
        reader, unit = self.reader, self.card.cell.g_max_s
        array = self.card.array
        devices = 2 if array.mapping == "differential" else 1
        tensors: list[torch.Tensor | None] = []
        for name, bits, shape in (
            ("conductances", "cells", (devices, array.slices, *self.shape)),
            ("reference_conductances", "reference_cells",
             (array.slices, len(self.tiling.out), self.shape[1])),
        ):  # fmt: skip
            if name == "reference_conductances" and array.mapping != "reference_column":
                tensors.append(None)
                continue
            g_s = reader.array(name, shape, "float64", "S", least=0.0)
            if reader.flag(f"{bits}_held"):
                tensors.append(self._tensor(reader, bits, shape, "g_max_s", least=0.0))
            else:
                held = torch.from_numpy((g_s / unit).astype(self.name))
                tensors.append(held.to(self.device))
        stuck = self.card.cell.stuck
        if max(stuck.low, stuck.high, stuck.random) > 0:  # for other readers; the seed tells it
            reader.array("stuck", (devices, array.slices, *self.shape), "uint8", "1")
        if not reader.flag("conductances_held"):
            return None
        assert tensors[0] is not None
        return Content(tensors[0], tensors[1])

    def _scales(self) -> Scales:
        reader, scaling = self.reader, self.card.array.scaling
        tile = column = None
        if scaling == "tile":
            shape = (len(self.tiling.out), len(self.tiling.inner))
            tile = reader.array("tile_scale", shape, "float64", "1", above=0.0)
        elif scaling == "column":
            column = reader.array("column_scale", self.shape[:1], "float64", "1", above=0.0)
        digits = reader.array("digits", (self.card.array.slices,), "float64", "1", above=0.0)
        return Scales(reader.number("scale", above=0.0), tile, column, digits)

    def _record(self) -> ProgrammingRecord:
        reader = self.reader
        return ProgrammingRecord(
            error=reader.number("record_error"),
            largest_error=reader.number("record_largest_error"),
            clipped=reader.number("record_clipped"),
            cells=reader.integer("record_cells"),
            unverified=reader.integer("record_unverified"),
            stuck=reader.integer("record_stuck"),
            drift_factor=reader.number("record_drift_factor"),
        )

    def _seen(self) -> Derived:
        """Noise through wires, as it was held."""
        reader, cell = self.reader, self.card.cell
        slices = self.card.array.slices
        devices = 2 if self.card.array.mapping == "differential" else 1
        weights = (slices, *self.shape)
        reference = (slices, len(self.tiling.out), self.shape[1])
        paired = self.card.array.mapping == "reference_column"
        noise = reference_noise = flicker = None
        entry = cell.read_noise
        if entry.law == "table" or (entry.law != "none" and entry.sigma > 0):
            per_g = reader.number("weight_per_conductance", above=0.0)
            fixed = self._tensor(reader, "noise_variance", weights, "1", 0.0)
            noise = CellNoise(entry, cell.g_max_s, per_g, None, devices, fixed)
            if paired:
                reference_noise = self._tensor(reader, "reference_variance", reference, "1", 0.0)
        if cell.flicker.sigma > 0:
            flicker = Flicker(
                cell.flicker.sigma, modes(cell.flicker.fastest_s, cell.flicker.slowest_s),
                Stream.of(self.seed, self.path, "flicker"),
                reader.number("weight_per_conductance", above=0.0),
                self._tensor(reader, "seen", (devices, *weights), "g_max_s", 0.0),
                self._tensor(reader, "seen_reference", reference, "g_max_s", 0.0)
                if paired
                else None,
                self.tiling,
            )  # fmt: skip
        return Derived(torch.empty(0, dtype=torch.float64), noise, reference_noise, flicker)
