"""Write one array into an HDF5 group: all that it is, to the bit (layout: ``docs/saving.md``).

What a read multiplies by is kept as held, so that loading solves no wires. ``archive_read`` is the
way back.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from itertools import zip_longest
from typing import Any, TypeAlias

import h5py
import numpy as np
import numpy.typing as npt
import torch

from eptsim.base.h5 import put_array
from eptsim.cards import Card
from eptsim.crossbar.conduction import Wires
from eptsim.crossbar.derived import Derived
from eptsim.crossbar.memory import Memory
from eptsim.crossbar.planning import Correction
from eptsim.crossbar.record import ProgrammingRecord
from eptsim.crossbar.stages import DIRECTIONS, LineStage

Axes: TypeAlias = tuple[str, ...]
CELLS: Axes = ("device", "slice", "out", "in")
WEIGHTS: Axes = CELLS[1:]
REFERENCE: Axes = ("slice", "out_tile", "in")
LINES: Axes = ("segment", "line")


@dataclass
class ArrayState:
    """Everything that a ``Crossbar`` is.

    Attributes
    ----------
    memory : Memory
        Conductances, weights and noise; knows dtype and device.
    lines : dict of direction to LineStage
        Converters and frozen line flaws.
    corrections : dict of direction to Correction
        What calibrations found.
    held, next_row : dict by direction
        Range of policy ``held``, and where the next read stands in the random streams.
    """

    card: Card
    seed: int
    path: str
    range_policy: str
    fused: bool
    memory: Memory
    lines: dict[str, LineStage]
    corrections: dict[str, Correction]
    held: dict[str, float | None]
    next_row: dict[str, int]
    time_s: float


def write_array(group: h5py.Group, state: ArrayState) -> None:
    """Write one array into an empty group."""
    memory = state.memory
    group.attrs.update(
        path=state.path, seed=state.seed, shape=np.array(memory.tiling.shape),
        dtype=str(memory.dtype).removeprefix("torch."), device=memory.device.type,
        range_policy=state.range_policy, fused=state.fused, time_s=state.time_s,
        scale=memory.scales.scale, drift_factor=memory.rescale, stale=memory.stale,
        out_tile_starts=np.array([part.start for part in memory.tiling.out]),
        in_tile_starts=np.array([part.start for part in memory.tiling.inner]),
    )  # fmt: skip
    for field in fields(ProgrammingRecord):
        group.attrs[f"record_{field.name}"] = getattr(memory.record, field.name)
    _put_conductances(group, state)
    _put_weights(group, memory)
    if Wires.of(state.card.array) is not None:
        _put_seen(group, memory.derived)
    for direction in DIRECTIONS:
        _put_direction(group.create_group(direction), state, direction)


def _plain(tensor: torch.Tensor) -> npt.NDArray[Any]:
    found: npt.NDArray[Any] = tensor.detach().cpu().contiguous().numpy()
    return found


def _put_conductances(group: h5py.Group, state: ArrayState) -> None:
    """Siemens to read, and what is held where the siemens do not give its bits back."""
    memory, unit = state.memory, state.card.cell.g_max_s
    content, shown = memory.content, memory.conductances()
    group.attrs["conductances_held"] = content is not None
    parts = [("conductances", "cells", shown.cells, CELLS, "conductance of each cell")]
    if shown.reference is not None:
        about = "conductance of each reference cell"
        names = ("reference_conductances", "reference_cells")
        parts.append((*names, shown.reference, REFERENCE, about))
    held = [] if content is None else [content.cells, content.reference]
    for (name, bits, g_s, axes, about), tensor in zip_longest(parts, held[: len(parts)]):
        put_array(group, name, g_s, units="S", axes=axes, about=about)
        exact = None if tensor is None else _plain(tensor)
        lossy = exact is not None and not np.array_equal((g_s / unit).astype(exact.dtype), exact)
        group.attrs[f"{bits}_held"] = lossy
        if exact is not None and lossy:
            put_array(group, bits, exact, units="g_max_s", axes=axes, about=f"{about}, as held")
    mask = memory.stuck_cells()
    if mask is not None:
        about = "cells that cannot be programmed"
        data = mask.astype(np.uint8)
        put_array(group, "stuck", data, units="1", axes=CELLS, about=about, compress=True)


def _put_weights(group: h5py.Group, memory: Memory) -> None:
    scales = memory.scales
    for name, tensor, axes, about in (
        ("weights", memory.stored, WEIGHTS, "weights as the lines see them, over their scales"),
        ("matrix", memory.combined, WEIGHTS, "the matrix that exact reads multiply by"),
    ):
        group.attrs[f"{name}_held"] = tensor is not None
        if tensor is not None:
            put_array(group, name, _plain(tensor), units="1", axes=axes, about=about)
    scale_sets: tuple[tuple[str, npt.NDArray[Any] | None, Axes, str], ...] = (
        ("digits", scales.digits, ("slice",), "what each slice counts for"),
        ("tile_scale", scales.tile, ("out_tile", "in_tile"), "scale of each tile over scale"),
        ("column_scale", scales.column, ("out",), "scale of each output line over scale"),
    )
    for name, data, names, about in scale_sets:
        if data is not None:
            put_array(group, name, data, units="1", axes=names, about=about)


def _put_seen(group: h5py.Group, derived: Derived) -> None:
    """Noise through wires, which would need them solved to be worked out again."""
    noise, flicker = derived.noise, derived.flicker
    about = "variance of one read, in units of the weights"
    if noise is not None:
        assert noise.fixed is not None
        group.attrs["weight_per_conductance"] = noise.per_g
        data = _plain(noise.fixed)
        put_array(group, "noise_variance", data, units="1", axes=WEIGHTS, about=about)
    if derived.reference_noise is not None:
        data = _plain(derived.reference_noise)
        put_array(group, "reference_variance", data, units="1", axes=REFERENCE, about=about)
    if flicker is not None:
        group.attrs["weight_per_conductance"] = flicker.per_g
        for name, tensor, axes in (
            ("seen", flicker.cells, CELLS), ("seen_reference", flicker.reference, REFERENCE)
        ):  # fmt: skip
            if tensor is not None:
                about = "conductance as the lines see it"
                data = _plain(tensor)
                put_array(group, name, data, units="g_max_s", axes=axes, about=about)


def _put_direction(group: h5py.Group, state: ArrayState, direction: str) -> None:
    lines, correction = state.lines[direction], state.corrections.get(direction)
    group.attrs["next_row"] = state.next_row[direction]
    group.attrs["calibrated"] = correction is not None
    held = state.held[direction]
    group.attrs["range_held"] = held is not None
    if held is not None:
        group.attrs["held_range"] = held
    values = [
        ("offset", lines.offset, "offset of each line, in normalised units"),
        ("gain", lines.gain, "gain of each line"),
    ]
    if correction is not None:
        values += [
            ("offset_correction", correction.offset, "offset that a calibration found"),
            ("gain_correction", correction.gain, "gain that a calibration found"),
        ]
    for name, tensor, about in values:
        put_array(group, name, _plain(tensor), units="1", axes=LINES, about=about)
