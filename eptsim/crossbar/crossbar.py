"""One weight matrix on an analog array, read in both directions through the same devices."""

from __future__ import annotations

import os
from typing import Any

import torch

from eptsim.base.errors import InputError, choice
from eptsim.cards import Card
from eptsim.crossbar.aihwkit_tile import AihwkitCrossbar
from eptsim.crossbar.archive import ArrayState
from eptsim.crossbar.calibration import (
    LineCalibration,
    RangeCalibration,
    calibrate_lines,
    calibrate_range,
)
from eptsim.crossbar.checks import (
    check_alone,
    check_backend,
    check_count,
    check_position,
    check_range,
    check_reference,
    check_vectors,
    check_weight,
)
from eptsim.crossbar.crossbar_file import read_crossbar, write_crossbar
from eptsim.crossbar.engine import run, zero_reference
from eptsim.crossbar.making import programmed_state
from eptsim.crossbar.memory import Conductances
from eptsim.crossbar.planning import PlanSources, make_plan
from eptsim.crossbar.ranges import shared_range
from eptsim.crossbar.record import ProgrammingRecord
from eptsim.crossbar.stages import (
    DIRECTIONS,
    LineStage,
    Position,
)


class Crossbar:
    """One weight matrix (out, in) stored as conductances, read forward and transposed.

    Parameters
    ----------
    weight : torch.Tensor, (out, in), float32 or float64
        The matrix to program. It is copied into conductances and not kept. The reads have its
        dtype and device.
    card : Card
        The device technology, from :func:`eptsim.load_card`.
    seed : int
        Chip seed: same weight, card, seed and path give the same chip and the same noise.
    path : str
        Name of the array on its chip; part of every random stream.
    range_policy : str or None
        Policy of reads that name none: ``per_vector``, the default (each vector is scaled to its
        own maximum; an all-zero one is driven at range 1), ``fixed`` (the card's ``input_range``)
        or ``held`` (set by :meth:`hold_range`). A card's ``input_range`` limits every policy.
    fused : bool or None
        One fused numba pass at each digital edge (CPU only). ``None``: wherever possible; False:
        plain torch operations, as on CUDA.
    backend : str
        ``eptsim``, or ``aihwkit``: then the result is an ``AihwkitCrossbar``, the same interface
        on IBM's tiles, which take ``rpu_config`` and no card.
    rpu_config : aihwkit configuration or None
        Any configuration or preset, for the backend ``aihwkit``.

    Raises
    ------
    InputError
        For a weight that is not a finite, non-empty matrix of float32 or float64.
    CardError
        For a card whose ranges are too small for the arithmetic.
    """

    def __new__(
        cls,
        weight: torch.Tensor | None = None,
        card: Card | None = None,
        seed: int = 0,
        *,
        path: str = "crossbar",
        range_policy: str | None = None,
        fused: bool | None = None,
        backend: str = "eptsim",
        rpu_config: object = None,
    ) -> Any:
        """Return the implementation that ``backend`` names."""
        check_backend(backend, rpu_config, "Crossbar")
        if backend == "eptsim":
            return object.__new__(cls)
        check_alone({"card": card, "fused": fused})
        check_weight(weight, str(path))
        assert weight is not None
        return AihwkitCrossbar(weight, rpu_config, seed, path=path, range_policy=range_policy)

    def __init__(
        self,
        weight: torch.Tensor,
        card: Card | None = None,
        seed: int = 0,
        *,
        path: str = "crossbar",
        range_policy: str | None = None,
        fused: bool | None = None,
        backend: str = "eptsim",  # noqa: ARG002 (see __new__)
        rpu_config: object = None,  # noqa: ARG002
    ) -> None:
        self._take(programmed_state(weight, card, seed, path, range_policy, fused))

    def _take(self, state: ArrayState) -> None:
        """Be the array that ``state`` describes."""
        self.card, self.seed, self.path = state.card, state.seed, state.path
        self.range_policy, self._fused, self.time_s = (
            state.range_policy, state.fused, state.time_s
        )
        self._memory, self._lines, self._corrections = (
            state.memory, state.lines, state.corrections
        )
        self._held, self._next_row = state.held, state.next_row
        self.shape: tuple[int, int] = state.memory.tiling.shape
        self.dtype, self.device = state.memory.dtype, state.memory.device
        self._plan()

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write all of the array to one HDF5 file, whole or not at all (``docs/saving.md``).

        Raises CheckpointError where it cannot be written, or is there and ``overwrite`` is False.
        """
        write_crossbar(path, self.state(), overwrite=overwrite)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        card: Card | None = None,
        *,
        device: torch.device | str = "cpu",
    ) -> Crossbar:
        """Open a saved array, which goes on to the bit where it stopped.

        ``card``, where given, replaces the saved one: its converters, line flaws, noise and
        clock hold, and a calibration of other converters is dropped with a warning.

        Raises
        ------
        CheckpointError
            For a file that is missing, cut short, changed or foreign.
        CardError
            For a card that differs in what made the cells; it names every entry.
        """
        return cls.of_state(read_crossbar(path, card, device))

    def state(self) -> ArrayState:
        """All that the array is: its own parts, no copies."""
        return ArrayState(
            self.card, self.seed, self.path, self.range_policy, self._fused, self._memory,
            self._lines, self._corrections, self._held, self._next_row, self.time_s,
        )

    @classmethod
    def of_state(cls, state: ArrayState) -> Crossbar:
        """The array that ``state`` describes, made of its parts."""
        array = object.__new__(cls)
        array._take(state)
        return array

    def _plan(self) -> None:
        """Put together what each direction needs for a read."""
        self._plans = {}
        for direction in DIRECTIONS:
            sources = PlanSources(
                self.path, self.seed, self.card, self._memory, self._lines[direction],
                self._corrections.get(direction), self._fused,
            )
            self._plans[direction] = make_plan(sources, direction)

    def read(
        self,
        x: torch.Tensor,
        *,
        range_policy: str | None = None,
        position: Position | None = None,
        reference: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Forward read y = W x of vectors ``x`` (..., in) -> (..., out).

        Parameters
        ----------
        range_policy : str or None
            How the converters' range is set; ``None`` is the crossbar's own policy.
        position : Position or None
            Address of the read in the random streams. ``None`` continues after the last vector
            read in this direction, so that any split of a batch gives the same bits.
        reference : (segments, out) or None
            Result of :meth:`zero_reference`, subtracted after the ADC.

        Raises
        ------
        InputError
            For a wrong shape, dtype or device, NaN or infinity, or an unknown or unusable policy.
        """
        return self._read("forward", x, range_policy, position, reference)

    def read_transpose(
        self,
        d: torch.Tensor,
        *,
        range_policy: str | None = None,
        position: Position | None = None,
        reference: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Transposed read W^T d of vectors ``d`` (..., out) -> (..., in).

        The same conductances as :meth:`read`, with the transpose direction's own converters,
        offsets, gains and noise. Arguments and errors as for :meth:`read`.
        """
        return self._read("transpose", d, range_policy, position, reference)

    def _read(
        self,
        direction: str,
        x: torch.Tensor,
        range_policy: str | None,
        position: Position | None,
        reference: torch.Tensor | None,
    ) -> torch.Tensor:
        plan = self._plans[direction]
        name = "read: x" if direction == "forward" else "read_transpose: d"
        check_vectors(x, name, plan.inner, self.shape, plan.stored)
        check_reference(reference, plan.stage.offset)
        check_position(position)
        policy = range_policy if range_policy is not None else self.range_policy
        held = shared_range(plan, policy, self._held[direction], direction)
        flat = x.detach().reshape(-1, plan.inner)
        lines = plan.lines
        if flat.shape[0] == 0:
            return x.new_zeros((*x.shape[:-1], lines))
        where = position or Position(0, self._next_row[direction], self.time_s)
        y = run(plan, flat.contiguous(), held, where, reference)
        if position is None:
            self._next_row[direction] += flat.shape[0]
        return y.reshape(*x.shape[:-1], lines)

    def zero_reference(
        self, direction: str, vectors: int, position: Position | None = None
    ) -> torch.Tensor:
        """Mean of ``vectors`` reads without drive, (segments, lines), in converter units.

        What a line shows when nothing drives it: its offset, as its ADC sees it. The read's noise
        averages out over the vectors.
        """
        choice(direction, DIRECTIONS, "direction")
        check_position(position)
        vectors = check_count(vectors, "vectors")
        where = position or Position(0, self._next_row[direction], self.time_s)
        if position is None:
            self._next_row[direction] += vectors
        return zero_reference(self._plans[direction], vectors, where)

    def weight(self) -> torch.Tensor:
        """The stored matrix (out, in) as the reads see it, device flaws included; a copy.

        1/f noise (``cell.flicker``) is not in it: it depends on when a read happens.
        """
        return self._memory.weight()

    @property
    def record(self) -> ProgrammingRecord:
        """What programming came to: reconstruction error, failed and stuck cells."""
        return self._memory.record

    def conductances(self) -> Conductances:
        """The conductances of all cells (S), float64; a copy."""
        return self._memory.conductances()

    def set_conductances(self, moved: Conductances) -> None:
        """Let the cells hold other conductances, with the shapes that :meth:`conductances` has.

        With exactly solved wires the reads follow by the difference of two ladder solutions, and
        the array is marked stale: :meth:`wires_error` measures the error it carries,
        :meth:`refresh_wires` takes it away.

        Raises
        ------
        InputError
            For another shape, or negative or non-finite conductances.
        """
        self._memory.move(moved)
        self._plan()

    @property
    def wires_stale(self) -> bool:
        """Whether conductances moved since the wires were last solved exactly."""
        return self._memory.stale

    def wires_error(self, tiles: int = 1) -> float:
        """Error of the stored weights against exactly solved wires, relative (Frobenius norm).

        Measured on ``tiles`` tiles spread over the array; 0 without wires.
        """
        return self._memory.wires_error(check_count(tiles, "tiles"))

    def refresh_wires(self) -> None:
        """Solve the wires again after conductances moved."""
        if self._memory.stale:
            self._memory.refresh()
            self._plan()

    def calibrate(self, direction: str, reads: int) -> LineCalibration:
        """Measure and correct offset and gain of every line of one direction.

        ``reads`` zero-input reads give the offsets, as many of a known current of either sign
        (half the full scale, injected at the line) the gains. Both are corrected digitally from
        then on; a line reference given to a read replaces the offset.

        Returns
        -------
        LineCalibration
            Root mean squares of offset and gain error before and after.
        """
        choice(direction, DIRECTIONS, "direction")
        reads = check_count(reads, "reads")
        where = Position(0, self._next_row[direction], self.time_s)
        self._next_row[direction] += 3 * reads
        self._corrections[direction], found = calibrate_lines(
            self._plans[direction], reads, where
        )
        self._plan()
        return found

    def drop_calibration(self, direction: str) -> None:
        """Read uncorrected again."""
        self._corrections.pop(choice(direction, DIRECTIONS, "direction"), None)
        self._plan()

    def calibrate_range(
        self, direction: str, vectors: torch.Tensor, percentile: float = 100.0
    ) -> RangeCalibration:
        """Hold the range that covers ``percentile`` of the vectors' magnitudes.

        Parameters
        ----------
        vectors : (..., in) forward, (..., out) transposed
            Inputs like those to come.
        percentile : float, in (0, 100]
            Share of the magnitudes that lies within the range; 100 holds the largest.

        Returns
        -------
        RangeCalibration
            The range held, and the shares of inputs and partial sums that are clipped in it.
        """
        plan = self._plans[choice(direction, DIRECTIONS, "direction")]
        check_vectors(vectors, "calibrate_range: vectors", plan.inner, self.shape, plan.stored)
        if not isinstance(percentile, int | float):
            raise InputError(
                f"calibrate_range: percentile: found {type(percentile).__name__}, allowed: a "
                "number in (0, 100]."
            )
        found = calibrate_range(plan, vectors.detach(), percentile)
        self.hold_range(direction, found.held_range)
        return found

    def peak(self, direction: str, x: torch.Tensor) -> float:
        """Largest magnitude that the converters have to drive for ``x`` (..., inner).

        That of ``x`` itself, or of what the digital scales of the lines make of it
        (``array.scaling`` "column", read transposed): the range to hold.
        """
        scale = self._plans[choice(direction, DIRECTIONS, "direction")].input_scale
        return float((x if scale is None else x * scale).abs().max())

    def hold_range(self, direction: str, value: float | None) -> None:
        """Set the range of policy ``held`` for one direction, in units of :meth:`peak` (> 0)."""
        choice(direction, DIRECTIONS, "direction")
        self._held[direction] = (
            None if value is None else check_range(value, "held range", self.dtype)
        )

    def held_range(self, direction: str) -> float | None:
        """The range that policy ``held`` uses for one direction, or None before calibration."""
        return self._held[choice(direction, DIRECTIONS, "direction")]

    def stage(self, direction: str) -> LineStage:
        """Converters and frozen line flaws of one direction."""
        return self._plans[choice(direction, DIRECTIONS, "direction")].stage

    def segments(self, direction: str) -> int:
        """Number of tiles whose partial sums make one output of ``direction``."""
        return len(self._plans[choice(direction, DIRECTIONS, "direction")].segments)
