"""From the memory and the lines of an array to the plan of each direction's reads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from eptsim.base.streams import Stream
from eptsim.cards import Card
from eptsim.cell.iv import drive
from eptsim.crossbar.memory import Memory
from eptsim.crossbar.plan import Plan, ReferenceColumn, Segment, orient
from eptsim.crossbar.stages import LineStage, bends_drive


@dataclass(frozen=True)
class Correction:
    """What a calibration found for one direction, (segments, lines) each.

    Attributes
    ----------
    offset : torch.Tensor
        Offsets, in normalised units after the ADC.
    gain : torch.Tensor
        Gains, as a digital factor divides by them.
    """

    offset: torch.Tensor
    gain: torch.Tensor


@dataclass(frozen=True)
class PlanSources:
    """What a plan is made of; see ``Crossbar`` and ``Plan`` for the parts."""

    path: str
    seed: int
    card: Card
    memory: Memory
    lines: LineStage
    correction: Correction | None
    fused: bool


def make_plan(sources: PlanSources, direction: str) -> Plan:
    """Plan of one direction, ``"forward"`` or ``"transpose"``."""
    forward = direction == "forward"
    exact, memory = sources.lines.exact, sources.memory
    stored = memory.combined if exact else memory.stored
    assert stored is not None
    parts = memory.tiling.inner if forward else memory.tiling.out
    column = None
    if memory.derived.reference_noise is not None:
        column = ReferenceColumn(
            memory.derived.reference_noise, memory.tiling.out,
            Stream.of(sources.seed, sources.path, "reference_column"),
        )
    input_scale = None
    if memory.scales.column is not None and not forward and not exact:
        input_scale = torch.from_numpy(memory.scales.column).to(stored.device, stored.dtype)
    return Plan(
        path=sources.path,
        forward=forward,
        stored=stored,
        oriented=orient(stored, forward),
        scale=1.0 if exact else memory.scales.scale * memory.rescale,
        largest=float(stored.abs().max()),
        factor=None if exact else _factor(sources, forward, stored),
        input_scale=input_scale,
        noise=memory.derived.noise,
        reference_column=column,
        flicker=memory.derived.flicker,
        bend=_bend(sources.card),
        segments=[Segment(k, part) for k in range(stored.shape[0]) for part in parts],
        stage=sources.lines,
        stream=Stream.of(sources.seed, sources.path, direction, "read"),
        fused=sources.fused,
        correction=None if sources.correction is None else sources.correction.offset,
    )


def _factor(sources: PlanSources, forward: bool, like: torch.Tensor) -> torch.Tensor | None:
    """Digital factor of every partial sum, (segments, lines); None where all are 1."""
    scales, tiling = sources.memory.scales, sources.memory.tiling
    correction = sources.correction
    plain = scales.tile is None and (scales.column is None or not forward)
    if correction is None and plain and scales.digits.size == 1:
        return None
    lines = sources.lines.offset.shape[1]
    one = np.ones((1, lines))
    if scales.column is not None and forward:
        one = scales.column[None, :]
    elif scales.tile is not None:
        across = tiling.out if forward else tiling.inner
        count = [part.stop - part.start for part in across]
        one = np.repeat(scales.tile.T if forward else scales.tile, count, axis=1)
    segments = sources.lines.offset.shape[0] // scales.digits.size
    one = np.broadcast_to(one, (segments, lines))
    factor = np.concatenate([digit * one for digit in scales.digits])
    result = torch.from_numpy(factor).to(like.device, like.dtype)
    return result if correction is None else result / correction.gain


def _bend(card: Card) -> Callable[[torch.Tensor], torch.Tensor] | None:
    iv, array = card.cell.iv, card.array
    if not bends_drive(card):
        return None

    def bend(u: torch.Tensor) -> torch.Tensor:
        return drive(u, array.read_voltage_v, iv.law, iv.v0_v, iv.table)

    return bend
