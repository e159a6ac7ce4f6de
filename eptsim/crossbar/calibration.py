"""Calibration of one direction of an array: its lines' offsets and gains, and its input range."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from eptsim.base.errors import InputError
from eptsim.cards.check import show
from eptsim.crossbar.engine import sense_currents
from eptsim.crossbar.plan import Plan
from eptsim.crossbar.planning import Correction
from eptsim.crossbar.stages import Position

#: Injected current of a gain calibration, over the full scale.
AMPLITUDE = 0.5
#: Smallest gain that is corrected; a line below it is dead, not miscalibrated.
_SMALLEST_GAIN = 0.1


@dataclass(frozen=True)
class LineCalibration:
    """Outcome of a line calibration: root mean squares over the lines of all segments.

    ``offset_*`` are fractions of the full scale, ``gain_*`` relative; ``after`` is what the
    correction leaves, known to the simulator alone.

    Attributes
    ----------
    reads : int
        Reads of each kind: at zero, and at either sign of the known current.
    uncorrected : int
        Lines whose gain is too small or too large to measure and correct.
    """

    reads: int
    offset_before: float
    offset_after: float
    gain_before: float
    gain_after: float
    uncorrected: int


@dataclass(frozen=True)
class RangeCalibration:
    """Outcome of a range calibration.

    Attributes
    ----------
    held_range : float
        The range that is held, in the input's units.
    clipped_inputs : float
        Fraction of the inputs beyond it.
    clipped_sums : float
        Fraction of the tiles' partial sums beyond the output converter's range, noise aside.
    """

    held_range: float
    clipped_inputs: float
    clipped_sums: float


def calibrate_lines(
    plan: Plan, reads: int, position: Position
) -> tuple[Correction, LineCalibration]:
    """Measure offset and gain of every line from 3 x ``reads`` reads; see ``Crossbar.calibrate``.

    The standard error of an offset is the line noise over sqrt(reads), and at worst half a step
    of the ADC where there is less noise than that.
    """
    stage = plan.stage
    lines = stage.offset.shape[1]
    count = reads if stage.line_sigma > 0 else 1
    shown = []
    for number, sign in enumerate((0.0, 1.0, -1.0)):
        current = plan.stored.new_full((count, lines), sign * AMPLITUDE * stage.full_scale)
        at = Position(position.read, position.row + number * reads, position.time_s)
        shown.append(sense_currents(plan, current, at))
    offset = shown[0]
    gain = (shown[1] - shown[2]) / (2.0 * AMPLITUDE * stage.full_scale)
    dead = gain < _SMALLEST_GAIN
    if stage.railed or stage.adc_steps is not None:  # beyond the rails it cannot be measured
        highest = torch.maximum(shown[1].abs(), shown[2].abs())
        dead |= highest >= stage.full_scale * (1 - 1e-6)
    gain = torch.where(dead, torch.ones_like(gain), gain)
    true_offset = stage.offset_at(position.time_s)

    def rms(x: torch.Tensor) -> float:
        return float(x.double().square().mean().sqrt())

    found = LineCalibration(
        reads=reads,
        offset_before=rms(true_offset) / stage.full_scale,
        offset_after=rms(true_offset - offset) / stage.full_scale,
        gain_before=rms(stage.gain - 1.0),
        gain_after=rms(stage.gain / gain - 1.0),
        uncorrected=int(dead.sum()),
    )
    return Correction(offset, gain), found


def calibrate_range(plan: Plan, vectors: torch.Tensor, percentile: float) -> RangeCalibration:
    """Range that covers ``percentile`` of the magnitudes in ``vectors`` (..., inner)."""
    if isinstance(percentile, bool) or not 0 < percentile <= 100:
        raise InputError(
            f"calibrate_range: percentile: found {show(percentile)}, allowed: a number in (0, 100]."
        )
    flat = vectors.reshape(-1, plan.inner)
    if flat.shape[0] == 0 or not bool(torch.isfinite(flat).all()):
        found = "none" if flat.shape[0] == 0 else "NaN or infinity"
        raise InputError(
            f"calibrate_range: vectors: found {found}, allowed: one or more, of finite numbers."
        )
    if plan.input_scale is not None:
        flat = flat * plan.input_scale
    size = flat.abs()
    top = float(size.max())
    if percentile < 100 and top > 0:
        ordered = torch.sort(size.reshape(-1)).values
        top = float(ordered[max(math.ceil(percentile / 100 * ordered.numel()) - 1, 0)]) or top
    held = top or 1.0
    limit = plan.stage.input_limit
    used = held if limit is None else min(held, limit)
    beyond = 0
    drive = (flat / used).clamp(-1.0, 1.0)
    if plan.bend is not None:
        drive = plan.bend(drive)
    for segment in plan.segments:
        sums = drive[:, segment.part] @ plan.oriented[segment.k][segment.part]
        beyond += int((sums.abs() > plan.stage.full_scale).sum()) if plan.stage.railed else 0
    return RangeCalibration(
        held_range=held,
        clipped_inputs=float((size > used).double().mean()),
        clipped_sums=beyond / (flat.shape[0] * plan.lines * len(plan.segments)),
    )
