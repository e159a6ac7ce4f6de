"""The EP controller: free phase, nudged phases, reference, and the gradient they give."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from eptsim.base.errors import InputError
from eptsim.chip import Chip, Pass
from eptsim.ep.gradient import Gradient, check_targets
from eptsim.ep.measure import Accumulator, Weights, measure
from eptsim.ep.options import Options
from eptsim.ep.record import Outcome, PhaseRecord
from eptsim.ep.settle import Task, require_settled, settle, top_down
from eptsim.ep.state import State, free_state
from eptsim.ep.vjp import block_vjp

#: Room above the largest value seen in calibration, so that another batch does not clip.
HELD_MARGIN = 1.25


@dataclass(frozen=True)
class _Nudge:
    """One nudged phase of a measurement: its name, sign, and weight in the estimate."""

    name: str
    sign: int
    share: float


_NUDGES = {
    "one_sided": (_Nudge("nudged", 1, 1.0),),
    "centred": (_Nudge("nudged+", 1, 0.5), _Nudge("nudged-", -1, 0.5)),
    "frozen": (_Nudge("nudged", 1, 1.0),),
    "predictive_coding": (_Nudge("nudged", 1, 1.0),),
}


class EPController:
    """Drives a chip's free and nudged phases and measures the gradient.

    Parameters
    ----------
    chip : Chip
    beta : float or None
        Nudge strength. ``None``: 0.01, or 1 for predictive coding.
    measurement : str
        ``one_sided``: z^beta against z^0. ``centred``: z^+beta against z^-beta. ``frozen``:
        predictions and Jacobians held at z^0, which is backpropagation in local variables.
        ``predictive_coding``: one settled phase, its raw mismatches.
    reference : str or None
        Where the free phase is subtracted: ``none``, ``weight`` (difference of outer products),
        ``node`` (mismatch at the state node), ``line`` (each transposed converter line, in
        converter units), or ``line+weight``, ``line+node``. A centred difference cancels
        ``weight`` by itself. ``None``: ``line``, or ``none`` for predictive coding.
    range_policy : str
        ``held`` (calibrated once per array and direction, see :meth:`calibrate`), ``per_vector``
        or ``fixed``.
    sweeps : int or None
        Fixed number of Gauss-Seidel sweeps of every settled phase.
    tolerance : float or None
        Relative residual at which a phase is settled, if ``sweeps`` is not given. ``None``: 1e-4
        in float32, 1e-10 in float64, 1e-3 for predictive coding.
    max_sweeps : int
        Sweeps after which a phase above the tolerance counts as not settled.
    reads : int
        Measurements averaged, each with fresh noise.

    Raises
    ------
    InputError
        For an argument outside what is allowed here.
    """

    def __init__(
        self,
        chip: Chip,
        beta: float | None = None,
        measurement: str = "centred",
        reference: str | None = None,
        range_policy: str = "held",
        *,
        sweeps: int | None = None,
        tolerance: float | None = None,
        max_sweeps: int = 200,
        reads: int = 1,
    ) -> None:
        if not isinstance(chip, Chip):
            raise InputError(f"EPController: chip: found {type(chip).__name__}, allowed: Chip.")
        self.chip = chip
        self.options = Options.checked(
            beta, measurement, reference, range_policy, sweeps, tolerance, max_sweeps, reads,
            chip.model.dtype,
        )
        self._ranges: dict[tuple[str, str], float] | None = None

    def gradient(self, tokens: Tensor, targets: Tensor) -> Gradient:
        """Gradient of the mean cross-entropy per target token, for every parameter.

        Parameters
        ----------
        tokens, targets : (B, T) integer tensors
            ``targets`` are the next tokens, -100 where a position has none.

        Raises
        ------
        InputError
            For bad ids or shapes.
        SettleError
            If a phase does not settle; it carries the records, and no gradient is given.
        """
        count = check_targets(self.chip.model, tokens, targets)
        options = self.options
        phases: list[PhaseRecord] = []
        # local gradients need autograd, and its tensors, also where the caller has switched it off
        with torch.inference_mode(mode=False):
            tokens, targets = tokens.clone(), targets.clone()
            if options.range_policy == "held":
                if self._ranges is None:
                    self.calibrate(tokens, targets)
                self.chip.hold_ranges(self._ranges or {}, HELD_MARGIN)
            task = Task(targets, count, options.sweeps, options.tolerance, options.max_sweeps)
            into = Accumulator(self.chip)
            for _ in range(options.reads):
                self._measure_once(tokens, task, into, phases)
        free = [p.cross_entropy for p in phases if p.name == "free"]
        return Gradient(into.grads, tuple(phases), sum(free) / len(free), options.as_settings())

    def calibrate(self, tokens: Tensor, targets: Tensor) -> dict[tuple[str, str], float]:
        """Find the ranges of policy ``held``: largest drive of each array and direction.

        One free pass and one nudged sweep at the controller's beta, every vector at its own range.
        :meth:`gradient` calls this on its first batch if nobody has; the ranges stay until the
        next call. Returns (array path, direction) -> largest drive.
        """
        check_targets(self.chip.model, tokens, targets)
        chip, beta = self.chip, self.options.beta
        observed: dict[tuple[str, str], float] = {}
        with torch.inference_mode(mode=False), torch.no_grad():
            tokens, targets = tokens.clone(), targets.clone()
            lines = self._line_references(tokens.numel(), "calibration")
            state = free_state(
                chip, tokens, chip.new_pass("calibration", "per_vector", observed=observed)
            )
            trip = chip.new_pass("calibration", "per_vector", lines, observed)
            d, _ = top_down(chip, state, targets, beta, trip)
            bottom = d[1]
            if bottom is not None:
                rotary = chip.model.rotary(tokens.shape[1], tokens.device)
                block_vjp(chip, 0, state.z[0], state.lines[0], bottom, rotary, trip)
        self._ranges = observed
        return dict(observed)

    def _line_references(self, vectors: int, phase: str) -> dict[str, Tensor]:
        if "line" not in self.options.references:
            return {}
        return self.chip.line_references(vectors, phase)

    def _pass(self, phase: str, lines: dict[str, Tensor]) -> Pass:
        return self.chip.new_pass(phase, self.options.range_policy, lines)

    def _measure_once(
        self, tokens: Tensor, task: Task, into: Accumulator, phases: list[PhaseRecord]
    ) -> None:
        """One free phase and the nudged phases of the measurement, added into ``into``."""
        options = self.options
        lines = self._line_references(tokens.numel(), "free")
        free = self._free_phase(tokens, task, into, phases, lines)
        subtract = list(free.d) if "node" in options.references else None
        nudges = _NUDGES[options.measurement]
        for index, nudge in enumerate(nudges):
            last = index == len(nudges) - 1
            state = free if last else free.copy()
            if last:
                del free  # the nudged phase may overwrite it: one state in memory
            weights = Weights(
                energy=nudge.sign * nudge.share / (options.beta * task.count * options.reads),
                loss=nudge.share / (task.count * options.reads),
            )
            phases.append(
                self._nudged_phase(state, tokens, task, nudge, weights, into, phases, lines,
                                   subtract)
            )

    def _free_phase(
        self,
        tokens: Tensor,
        task: Task,
        into: Accumulator,
        phases: list[PhaseRecord],
        lines: dict[str, Tensor],
    ) -> State:
        """Bottom-up pass, settled where forces or offsets move it, and measured for ``weight``."""
        chip, options = self.chip, self.options
        state = free_state(chip, tokens, self._pass("free", lines))
        wants_mismatch = bool({"weight", "node"} & set(options.references))
        moved = chip.card.node.offset > 0 or (wants_mismatch and not chip.quiet_transpose)
        record = PhaseRecord(
            "free", 0.0, Outcome.AT_REST, 0, (), options.tolerance, None,
            tuple(state.energies()), 0.0,
        )
        if moved:
            record = settle(chip, state, task, 0.0, self._pass("free", lines))
            require_settled(record, [*phases, record])
        if moved and "weight" in options.references and options.measurement != "centred":
            weights = Weights(-1.0 / (options.beta * task.count * options.reads), 0.0)
            loss = measure(
                chip, state, state.d, tokens, task.targets, weights, into,
                self._pass("free", lines),
            )
        else:
            loss = into.head(state.z[-1], task.targets, 0.0)
        phases.append(replace(record, cross_entropy=loss / task.count))
        return state

    def _nudged_phase(
        self,
        state: State,
        tokens: Tensor,
        task: Task,
        nudge: _Nudge,
        weights: Weights,
        into: Accumulator,
        phases: list[PhaseRecord],
        lines: dict[str, Tensor],
        subtract: list[Tensor | None] | None,
    ) -> PhaseRecord:
        chip, options = self.chip, self.options
        beta = nudge.sign * options.beta
        if options.measurement == "frozen":
            trip = self._pass(nudge.name, lines)
            state.d, _ = top_down(chip, state, task.targets, beta, trip)
            record = PhaseRecord(
                nudge.name, beta, Outcome.HELD, 1, (), options.tolerance, None,
                tuple(state.energies()), 0.0,
            )
        else:
            record = settle(chip, state, task, beta, self._pass(nudge.name, lines))
            require_settled(record, [*phases, record])
        loss = measure(
            chip, state, state.d, tokens, task.targets, weights, into,
            self._pass(nudge.name, lines),
        )
        if subtract is not None:
            # the free mismatches, driven through the same arrays at the same state: the reads'
            # own offsets drop out of the difference if both have the same range
            measure(
                chip, state, subtract, tokens, task.targets, Weights(-weights.energy, 0.0), into,
                self._pass(nudge.name, lines),
            )
        return replace(record, cross_entropy=loss / task.count)
