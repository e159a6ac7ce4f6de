"""One measurement of the offset study as numbers, and a task's numbers as named arrays."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from eptsim.base.errors import SettleError
from eptsim.ep.compare import ARRAY_NAMES, Comparison, compare
from eptsim.ep.gradient import Gradient
from eptsim.ep.record import PhaseRecord
from eptsim.results.variable import Variable

_ON_CHIP = re.compile(r"\.layers\.\d+\.(self_attn|mlp)\.\w+_proj\.weight$")

REFUSED = "refused"
"""Outcome of a measurement with a phase that did not settle."""


@dataclass(frozen=True)
class Row:
    """One measurement. All numbers are NaN where it was refused; ``reason`` then says why.

    ``blocks`` is (blocks, 2) and ``arrays`` (blocks, 7, 2): cosine and relative error to
    backpropagation. ``offset_free``: cosine and relative error to the same chip without offsets.
    """

    outcome: str
    reason: str
    sweeps: int
    residual: float
    loss: float
    total: tuple[float, float, float, float]
    offset_free: tuple[float, float]
    blocks: np.ndarray[tuple[int, ...], np.dtype[np.float64]]
    arrays: np.ndarray[tuple[int, ...], np.dtype[np.float64]]


def measured_row(found: Gradient, exact: Gradient, offset_free: Gradient | None) -> Row:
    """Row of a gradient, against backpropagation and against the chip without offsets."""
    against = compare(found, exact)
    total = against.total
    free = (math.nan, math.nan)
    if offset_free is not None:
        free = _apart(found, offset_free)
    worst = _slowest(found.phases)
    return Row(
        worst.outcome.name.lower(), "", worst.sweeps, worst.residual, found.loss,
        (total.cosine, total.relative_error, total.norm_ratio, total.sign_disagreement), free,
        _pairs(against, "block"), _pairs(against, "array").reshape(-1, len(ARRAY_NAMES), 2),
    )


def refused_row(error: SettleError, blocks: int) -> Row:
    """Row of a measurement without a gradient."""
    records = [phase for phase in error.phases if isinstance(phase, PhaseRecord)]
    last = records[-1] if records else None
    reason, sweeps = (str(error), 0) if last is None else (last.describe(), last.sweeps)
    nan = math.nan
    return Row(
        REFUSED, reason, sweeps, nan, nan, (nan, nan, nan, nan), (nan, nan),
        np.full((blocks, 2), nan), np.full((blocks, len(ARRAY_NAMES), 2), nan),
    )


def _apart(a: Gradient, b: Gradient) -> tuple[float, float]:
    """Cosine and relative error over all arrays, as ``compare`` has them, in one pass."""
    dot = own = other = error = 0.0
    for layer_name in (name for name in b.grads if _ON_CHIP.search(name)):
        u, v = a.grads[layer_name].double(), b.grads[layer_name].double()
        dot += float((u * v).sum())
        own += float(u.square().sum())
        other += float(v.square().sum())
        error += float((u - v).square().sum())
    if other == 0:
        return (1.0, 0.0) if own == 0 else (0.0, math.inf)
    return (dot / math.sqrt(own * other) if own > 0 else 0.0), math.sqrt(error / other)


def _slowest(phases: Sequence[PhaseRecord]) -> PhaseRecord:
    return max(phases, key=lambda phase: (phase.sweeps, phase.residual))


def _pairs(against: Comparison, scope: str) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    return np.array([(row.cosine, row.relative_error) for row in against.select(scope)])


def variables(
    rows: Sequence[Row], amplitudes: Sequence[float], backprop_loss: float
) -> tuple[dict[str, Variable], dict[str, Variable]]:
    """Arrays and coordinates of one task, for ``write_result``."""
    along = ("amplitude",)
    total = np.array([row.total for row in rows])
    free = np.array([row.offset_free for row in rows])
    blocks = np.stack([row.blocks for row in rows])
    arrays = np.stack([row.arrays for row in rows])
    by_block, by_array = (*along, "block"), (*along, "block", "array")
    reference = "to backpropagation on the model"
    bare = "to the same chip without offsets"
    found = {
        "cosine": Variable(total[:, 0], along, "1", f"cosine {reference}, all arrays"),
        "relative_error": Variable(total[:, 1], along, "1", f"|g - g0| / |g0| {reference}"),
        "norm_ratio": Variable(total[:, 2], along, "1", f"|g| / |g0| {reference}"),
        "sign_disagreement": Variable(
            total[:, 3], along, "1", f"fraction of entries of another sign, {reference}"
        ),
        "offset_free_cosine": Variable(free[:, 0], along, "1", f"cosine {bare}"),
        "offset_free_error": Variable(free[:, 1], along, "1", f"|g - g0| / |g0| {bare}"),
        "block_cosine": Variable(blocks[..., 0], by_block, "1", f"cosine {reference}"),
        "block_relative_error": Variable(blocks[..., 1], by_block, "1", f"error {reference}"),
        "array_cosine": Variable(arrays[..., 0], by_array, "1", f"cosine {reference}"),
        "array_relative_error": Variable(arrays[..., 1], by_array, "1", f"error {reference}"),
        "loss": Variable(
            np.array([row.loss for row in rows]), along, "nat",
            "mean cross-entropy of the free phase per target token",
        ),
        "sweeps": Variable(
            np.array([row.sweeps for row in rows]), along, "1", "sweeps of the slowest phase"
        ),
        "residual": Variable(
            np.array([row.residual for row in rows]), along, "1", "its relative residual at the end"
        ),
        "outcome": Variable(
            np.array([row.outcome for row in rows]), along, "1",
            "how the slowest phase ended; refused: a phase did not settle, so no gradient",
        ),
        "reason": Variable(
            np.array([row.reason for row in rows]), along, "1", "why it was refused"
        ),
        "backprop_loss": Variable(
            np.array(backprop_loss), (), "nat", "mean cross-entropy of the digital model"
        ),
    }
    coords = {
        "amplitude": Variable(
            np.array(amplitudes), along, "1",
            "standard deviation of the offset over the lines, in the unit of the card's entry",
        ),
        "block": Variable(np.arange(1, blocks.shape[1] + 1), ("block",), "1", "block, from 1"),
        "array": Variable(np.array(ARRAY_NAMES), ("array",), "1", "weight matrix"),
    }
    return found, coords
