"""One weight matrix on an analog array, read in both directions through the same devices."""

from __future__ import annotations

import numpy as np
import torch

from eptsim.base.errors import InputError, choice
from eptsim.base.streams import Stream, check_seed
from eptsim.cards import Card
from eptsim.crossbar.checks import (
    check_count,
    check_range,
    check_reference,
    check_vectors,
    check_weight,
)
from eptsim.crossbar.engine import Plan, ReferenceColumn, run, zero_reference
from eptsim.crossbar.mapping import Programmed, program
from eptsim.crossbar.stages import (
    DIRECTIONS,
    RANGE_POLICIES,
    LineStage,
    Position,
    line_stage,
    smallest_range,
)
from eptsim.crossbar.tiles import cut, operand


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
    range_policy : str
        Policy of reads that name none: ``per_vector`` (each vector is scaled to its own maximum;
        an all-zero one is driven at range 1), ``fixed`` (the card's ``input_range``) or ``held``
        (set by :meth:`hold_range`). ``input_range``, where a card gives one, limits every policy.
    fused : bool or None
        One fused numba pass at each digital edge (CPU only). ``None``: wherever possible; False:
        plain torch operations, as on CUDA.

    Raises
    ------
    InputError
        For a weight that is not a finite, non-empty matrix of float32 or float64.
    CardError
        For a card whose ranges are too small for the arithmetic.
    """

    def __init__(
        self,
        weight: torch.Tensor,
        card: Card,
        seed: int = 0,
        *,
        path: str = "crossbar",
        range_policy: str = "per_vector",
        fused: bool | None = None,
    ) -> None:
        if not isinstance(path, str):
            raise InputError(f"path: found {path!r}, allowed: a text.")
        check_weight(weight, path)
        if not isinstance(card, Card):
            raise InputError(
                f"card: found {type(card).__name__}, allowed: a Card (eptsim.load_card)."
            )
        self.card = card
        self.seed = check_seed(seed)
        self.path = path
        self.range_policy = choice(range_policy, RANGE_POLICIES, "range_policy")
        self.shape: tuple[int, int] = (weight.shape[0], weight.shape[1])
        self.dtype = weight.dtype
        self.device = weight.device
        on_cpu = weight.device.type == "cpu"
        if fused and not on_cpu:
            raise InputError(f"fused: found True on {weight.device}, allowed: True on cpu only.")
        self._held: dict[str, float | None] = {"forward": None, "transpose": None}
        self._next_row = {"forward": 0, "transpose": 0}
        self._plans = self._program(weight, on_cpu if fused is None else fused)

    def _program(self, weight: torch.Tensor, fused: bool) -> dict[str, Plan]:
        out, inner = self.shape
        out_tiles = cut(out, self.card.array.columns)
        stream = Stream.of(self.seed, self.path, "program")
        done = program(weight.detach().cpu().double().numpy(), self.card, stream, out_tiles)
        self._check_stored(done)
        noise: torch.Tensor | float | None = None
        if isinstance(done.noise_variance, float):
            noise = done.noise_variance
        elif done.noise_variance is not None:
            noise = torch.from_numpy(done.noise_variance).to(self.device, self.dtype)
        column = None
        if done.reference_variance is not None:
            column = ReferenceColumn(
                torch.from_numpy(done.reference_variance).to(self.device, self.dtype),
                out_tiles,
                Stream.of(self.seed, self.path, "reference_column"),
            )
        plans = {}
        matrices: dict[float, torch.Tensor] = {}  # both directions share one where they can
        for direction in DIRECTIONS:
            forward = direction == "forward"
            segments = cut(inner, self.card.array.rows) if forward else out_tiles
            lines = out if forward else inner
            stage = line_stage(
                self.card, direction, self.seed, self.path, (len(segments), lines),
                self.dtype, self.device,
            )
            scale = 1.0 if stage.exact else done.scale
            if scale not in matrices:
                stored = done.weight * (done.scale / scale)
                matrices[scale] = torch.from_numpy(stored).to(self.device, self.dtype)
            matrix = matrices[scale]
            plans[direction] = Plan(
                path=self.path,
                forward=forward,
                matrix=operand(matrix.T) if forward else matrix,
                scale=scale,
                variance=operand(noise.T) if forward and isinstance(noise, torch.Tensor) else noise,
                reference_column=column,
                segments=segments,
                stage=stage,
                stream=Stream.of(self.seed, self.path, direction, "read"),
                fused=fused,
            )
        return plans

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
        check_vectors(x, name, plan.matrix.shape[0], self.shape, plan.matrix)
        check_reference(reference, plan.stage.offset)
        held = self._range(direction, range_policy)
        flat = x.detach().reshape(-1, plan.matrix.shape[0])
        lines = plan.matrix.shape[1]
        if flat.shape[0] == 0:
            return x.new_zeros((*x.shape[:-1], lines))
        where = position or Position(0, self._next_row[direction])
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
        vectors = check_count(vectors, "vectors")
        where = position or Position(0, self._next_row[direction])
        if position is None:
            self._next_row[direction] += vectors
        return zero_reference(self._plans[direction], vectors, where)

    def weight(self) -> torch.Tensor:
        """The stored matrix (out, in) as the reads see it, device flaws included; a copy."""
        plan = self._plans["transpose"]
        return plan.matrix * plan.scale

    def hold_range(self, direction: str, value: float | None) -> None:
        """Set the range of policy ``held`` for one direction, in the input's units (> 0)."""
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

    def _range(self, direction: str, range_policy: str | None) -> float | None:
        """The shared range of a read, or None where each vector has its own."""
        name = range_policy if range_policy is not None else self.range_policy
        policy = choice(name, RANGE_POLICIES, "range_policy")
        if policy == "per_vector" or self._plans[direction].stage.exact:
            return None
        limit = self._plans[direction].stage.input_limit
        if policy == "fixed":
            return 1.0 if limit is None else limit  # a card's limit is above the smallest range
        held = self._held[direction]
        if held is None:
            raise InputError(
                f"range_policy 'held': array {self.path!r} has no {direction} range yet. "
                "Call hold_range first (an EPController calibrates its chip by itself)."
            )
        held = max(held, smallest_range(self.dtype))
        return held if limit is None else min(held, limit)

    def _check_stored(self, done: Programmed) -> None:
        largest = float(np.abs(done.weight).max()) * done.scale
        if not largest <= torch.finfo(self.dtype).max:
            raise InputError(
                f"weight: found a largest magnitude of {done.scale:g}, stored as {largest:g}, "
                f"allowed: what {self.dtype} holds."
            )
