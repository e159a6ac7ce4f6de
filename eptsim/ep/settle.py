"""Gauss-Seidel settling of F(z) = E(z) + beta CE(z_L): top-down mismatches, bottom-up states."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise

import torch
from torch import Tensor

from eptsim.base.errors import ReadError, SettleError
from eptsim.chip import Chip, Pass
from eptsim.digital.loss import cross_entropy_sum
from eptsim.ep.record import Outcome, PhaseRecord
from eptsim.ep.state import State, bottom_up
from eptsim.ep.vjp import block_vjp
from eptsim.olmo2.operations import block_vjp_operations, readout_operations

#: Residual above which two reads of a nudged state have too little in common to call it settled:
#: unrelated ones differ by the square root of 2.
UNRELATED = 1.2
#: Last residual above which even a fixed number of sweeps is no settled phase: pure read noise
#: gives the square root of 2.
RUNAWAY = 2.0
#: Growth of a block's mismatch over its first value that is called divergence.
BLOW_UP = 1e3
_STALL = 0.7
_LEAST_DAMPED, _MOST_DAMPED = 1.0, 1.0 / 16.0


@dataclass(frozen=True)
class Task:
    """What a phase settles, and when it stops.

    Attributes
    ----------
    targets : (B, T)
        Next tokens; -100 where a position has none.
    count : int
        Number of target tokens.
    sweeps : int or None
        Fixed number of sweeps; else stop at ``tolerance``, after ``max_sweeps`` at most.
    """

    targets: Tensor
    count: int
    sweeps: int | None
    tolerance: float
    max_sweeps: int


def top_force(chip: Chip, z: Tensor, targets: Tensor, phase: str) -> tuple[float, Tensor]:
    """Cross-entropy summed over tokens at the top state ``z`` (B, T, C), and its gradient."""
    leaf = z.detach().requires_grad_()
    with torch.enable_grad():
        loss = cross_entropy_sum(chip.model.readout(leaf), targets)
    (gradient,) = torch.autograd.grad(loss, leaf)
    operations = readout_operations(chip.model.shape, z.shape[0], z.shape[1])
    chip.ledger.count_digital(operations, phase)
    return float(loss.detach()), gradient


def top_down(
    chip: Chip, state: State, targets: Tensor, beta: float, trip: Pass
) -> tuple[list[Tensor | None], float]:
    """New mismatches at the present states, from the top: d_{l-1} = J_l(z_{l-1})^T d_l.

    The constant force of each node adds to its mismatch. Returns them and the cross-entropy summed
    over tokens.
    """
    loss, gradient = top_force(chip, state.z[-1], targets, trip.phase)
    d: list[Tensor | None] = [None] * (chip.layers + 1)
    batch, positions, _ = state.z[0].shape
    rotary = chip.model.rotary(positions, state.z[0].device)
    operations = block_vjp_operations(chip.model.shape, batch, positions)
    current = -beta * gradient + chip.node_force[-1]
    d[chip.layers] = current
    for layer in range(chip.layers - 1, 0, -1):
        try:
            below = block_vjp(
                chip, layer, state.z[layer], state.lines[layer], current, rotary, trip
            )
        except ReadError as error:  # the read refused what has overflowed
            raise OverflowedError(layer) from error
        chip.ledger.count_digital(operations, trip.phase)
        current = below + chip.node_force[layer - 1]
        if not bool(torch.isfinite(current.sum())):
            raise OverflowedError(layer)
        d[layer] = current
    return d, loss


class OverflowedError(SettleError):
    """A mismatch grew beyond what can be computed; ``layer`` (from 1) is its block."""

    def __init__(self, layer: int) -> None:
        super().__init__(
            f"No gradient: the mismatch of block {layer} overflowed on the way down; lower beta."
        )
        self.layer = layer


def residuals(new: list[Tensor | None], old: list[Tensor | None]) -> tuple[float, ...]:
    """||d_new - d_old|| / ||d_new|| of each block: dF/dz_l at the old state, relative."""
    result = []
    for a, b in zip(new[1:], old[1:], strict=True):
        if a is None:
            raise ValueError("a new mismatch is never None")
        size = float(torch.linalg.vector_norm(a))
        change = size if b is None else float(torch.linalg.vector_norm(a - b))
        result.append(change / size if size > 0 else (0.0 if change == 0 else math.inf))
    return tuple(result)


def settle(chip: Chip, state: State, task: Task, beta: float, trip: Pass) -> PhaseRecord:
    """Settle ``state`` in place at nudge ``beta``; ``trip`` names phase, ranges and references.

    Returns
    -------
    PhaseRecord
        With the outcome; an unsettled state is the caller's to refuse. Its cross-entropy is that
        of the state before the last sweep, until a measurement reads it again.
    """
    history: list[tuple[float, ...]] = []
    first_norms: list[float] = []
    loss = math.nan
    step = _LEAST_DAMPED
    floor: float | None = None
    outcome, layer = None, None
    for sweep in range(task.sweeps or task.max_sweeps):
        try:
            d, loss = top_down(chip, state, task.targets, beta, _fresh(chip, trip))
        except OverflowedError as error:
            outcome, layer = Outcome.DIVERGED, error.layer
            break
        history.append(residuals(d, state.d))
        norms = [0.0 if x is None else float(torch.linalg.vector_norm(x)) for x in d[1:]]
        first_norms = first_norms or norms
        layer = _blown_up(norms, first_norms, history)
        if layer is not None:
            outcome = Outcome.DIVERGED
            break
        if task.sweeps is None and sweep > 0:
            outcome, floor = _verdict(chip, state, task, beta, trip, history, d, floor)
        if task.sweeps is None and outcome is None:
            step = _damping(step, history)
        state.d = d if step == _LEAST_DAMPED else _partway(state.d, d, step)
        try:
            bottom_up(chip, state, _fresh(chip, trip))
        except ReadError:  # likewise, on the way up
            outcome, layer = Outcome.DIVERGED, 1 + norms.index(max(norms))
            break
        if outcome is not None:
            break
    if outcome is None:
        bounded = task.sweeps is not None and max(history[-1]) <= RUNAWAY
        outcome = Outcome.FIXED_SWEEPS if bounded else Outcome.NOT_SETTLED
    if outcome is Outcome.NOT_SETTLED:
        layer = 1 + max(range(len(history[-1])), key=lambda i: history[-1][i])
    return PhaseRecord(
        trip.phase, beta, outcome, len(history), tuple(history), task.tolerance, floor,
        tuple(state.energies()), loss / task.count, layer,
    )


def _damping(step: float, history: list[tuple[float, ...]]) -> float:
    """Halve the step where a sweep did not shrink the residual, let it grow where it did.

    A damped sweep has the same fixed point as a full one.
    """
    if len(history) > 2 and max(history[-1]) > 0.95 * max(history[-2]):
        return max(step / 2, _MOST_DAMPED)
    return min(1.1 * step, _LEAST_DAMPED)


def _partway(
    old: list[Tensor | None], new: list[Tensor | None], step: float
) -> list[Tensor | None]:
    result: list[Tensor | None] = []
    for a, b in zip(old, new, strict=True):
        result.append(b if a is None or b is None else torch.lerp(a, b, step))
    return result


def _fresh(chip: Chip, trip: Pass) -> Pass:
    """A pass like ``trip`` with a read number, and so noise, of its own."""
    fresh = chip.new_pass(trip.phase, trip.range_policy)
    return replace(trip, number=fresh.number, time_s=fresh.time_s)


def _blown_up(
    norms: list[float], first: list[float], history: list[tuple[float, ...]]
) -> int | None:
    """Block (from 1) whose mismatch diverges, the top one if several do; else None."""
    for index in range(len(norms) - 1, -1, -1):
        if not math.isfinite(norms[index]):
            return index + 1
        if first[index] > 0 and norms[index] > BLOW_UP * first[index]:
            return index + 1
    if len(history) < 5:
        return None
    for index in range(len(norms) - 1, -1, -1):
        recent = [row[index] for row in history[-4:]]
        grows = all(b > 1.05 * a for a, b in pairwise(recent))
        if grows and recent[-1] > 1.0:
            return index + 1
    return None


def _verdict(
    chip: Chip,
    state: State,
    task: Task,
    beta: float,
    trip: Pass,
    history: list[tuple[float, ...]],
    d: list[Tensor | None],
    floor: float | None,
) -> tuple[Outcome | None, float | None]:
    """Whether the sweep that gave ``d`` at ``state`` ends the phase, and the floor if measured."""
    worst = max(history[-1])
    if worst <= task.tolerance:
        return Outcome.CONVERGED, floor
    if len(history) < 3 or worst < _STALL * max(history[-2]):
        return None, floor
    recent = max(worst, *history[-2])  # one lucky sweep is not enough
    if chip.noisy:
        # the same mismatches, settled and read once more: what differs is noise
        again = state.copy()
        bottom_up(chip, again, _fresh(chip, trip))
        d_again, _ = top_down(chip, again, task.targets, beta, _fresh(chip, trip))
        floor = max(residuals(d_again, d))
        # a free phase may be nothing but noise around zero; a nudged one must show its nudge
        visible = beta == 0 or max(recent, floor) <= UNRELATED
        if recent <= 1.5 * floor and visible:
            return Outcome.NOISE_FLOOR, floor
        return None, floor
    resolution = converter_floor(chip)
    if recent <= resolution:
        return Outcome.CONVERTER_FLOOR, resolution
    return None, floor


def converter_floor(chip: Chip) -> float:
    """Residual that converter steps alone can leave: two steps of each, for signals of order 1.

    A residual that no longer shrinks, on a chip without noise, is put down to them below this.
    """
    floor = 0.0
    for direction in ("forward", "transpose"):
        stage = next(iter(chip.arrays.values())).stage(direction)
        steps = 0.0 if stage.dac_steps is None else 1.0 / stage.dac_steps
        if stage.adc_steps is not None:
            steps += stage.full_scale / stage.adc_steps
        floor = max(floor, 2.0 * steps)
    return min(floor, 1.0)


def require_settled(record: PhaseRecord, phases: list[PhaseRecord]) -> None:
    """Raise SettleError, with every record so far, unless ``record`` is settled."""
    if not record.settled:
        raise SettleError(
            f"No gradient: {record.describe()}. The phase's records are in this error's .phases.",
            tuple(phases),
        )
