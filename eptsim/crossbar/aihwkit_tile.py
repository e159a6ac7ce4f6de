"""A weight matrix on tiles of IBM's aihwkit, behind the interface of eptsim's own crossbar."""

from __future__ import annotations

import math
from itertools import pairwise

import torch

from eptsim.base.errors import InputError, ReadError, choice
from eptsim.base.streams import check_seed
from eptsim.cards.check import show
from eptsim.crossbar.aihwkit_config import (
    AihwkitConverters,
    check_rpu_config,
    converters,
    is_inference,
)
from eptsim.crossbar.aihwkit_simulator import Tile
from eptsim.crossbar.checks import (
    check_count,
    check_range,
    check_reference,
    check_vectors,
    check_weight,
)
from eptsim.crossbar.ranges import no_held_range
from eptsim.crossbar.stages import DIRECTIONS, RANGE_POLICIES, Position, smallest_range

_FLOAT = torch.float32


class AihwkitCrossbar:
    """One weight matrix (out, in) on aihwkit tiles, read forward, transposed, and pulsed.

    The tiles, cut as aihwkit cuts a layer (``mapping.max_input_size``, ``max_output_size``), are
    aihwkit's own; partial sums over them are digital. Weights are stored as aihwkit stores them:
    scaled by ``mapping.weight_scaling_omega`` where that is set, else as they are, and clipped at
    the devices' bounds. Ranges follow the range policy, see :mod:`eptsim.crossbar.aihwkit_config`;
    with ``per_vector`` each tile scales its own part of a vector, as aihwkit does. The transposed
    read of an :class:`InferenceRPUConfig` is perfect, as its ``backward`` says.

    The same weight, configuration, seed and path give the same devices and the same noise, split
    over batches as one likes. One thing aihwkit leaves to the clock, and there the seed fixes the
    statistics only: what a compound of several devices draws of its own in an :meth:`update`.
    The process's C generator (``rand``) is restarted by reads of C++ tiles; torch's and NumPy's
    generators stay as they are.

    Parameters
    ----------
    weight : torch.Tensor, (out, in), float32, on the CPU
        The matrix to program; copied. aihwkit's wheel computes in float32 on the CPU only.
    rpu_config : aihwkit configuration
        Any configuration or preset; copied.
    seed : int
        Chip seed.
    path : str
        Name of the array on its chip; part of every random draw.
    range_policy : str or None
        Policy of reads that name none: ``per_vector``, ``fixed`` or ``held``. ``None``: what the
        configuration asks for, in each direction.
    inference_time_s : float or None
        Seconds after programming at which an :class:`InferenceRPUConfig` is read, see
        :meth:`program`. ``None``: its noise model is not applied, as in aihwkit before
        ``program_analog_weights``.

    Raises
    ------
    InputError
        For a missing or mismatched aihwkit (it names the versions that match), a weight that is
        not a finite float32 matrix on the CPU, or a configuration that cannot be honoured.
    """

    def __init__(
        self,
        weight: torch.Tensor,
        rpu_config: object,
        seed: int = 0,
        *,
        path: str = "crossbar",
        range_policy: str | None = None,
        inference_time_s: float | None = None,
    ) -> None:
        if not isinstance(path, str):
            raise InputError(f"path: found {path!r}, allowed: a text.")
        check_weight(weight, path)
        if weight.dtype != _FLOAT or weight.device.type != "cpu":
            raise InputError(
                f"array {path!r}: weight: found {weight.dtype} on {weight.device}, allowed: "
                f"{_FLOAT} on cpu, the only ones that aihwkit's wheel computes in."
            )
        check_rpu_config(rpu_config)
        self.rpu_config = rpu_config
        self.seed = check_seed(seed)
        self.path = path
        self.range_policy = (
            None if range_policy is None else choice(range_policy, RANGE_POLICIES, "range_policy")
        )
        self.shape: tuple[int, int] = (weight.shape[0], weight.shape[1])
        self.dtype = weight.dtype
        self.device = weight.device
        self._converters = {name: converters(rpu_config, name) for name in DIRECTIONS}
        self._held: dict[str, float | None] = {"forward": None, "transpose": None}
        self._next_row = {"forward": 0, "transpose": 0}
        self._updates = 0
        self._inner, self._out = _cuts(self.shape, rpu_config)
        self._tiles = [
            [
                Tile(
                    weight.detach()[out, inner], rpu_config, self._converters, self.seed,
                    f"{path}/{row}/{column}",
                )
                for column, out in enumerate(self._out)
            ]
            for row, inner in enumerate(self._inner)
        ]
        if inference_time_s is not None:
            self.program(inference_time_s)

    @property
    def left_out(self) -> tuple[str, ...]:
        """Settings of the configuration that have no effect here, by their dotted names.

        The write noise of the first programming of a compound's devices, which aihwkit draws
        from the clock.
        """
        return self._tiles[0][0].left_out

    def program(self, inference_time_s: float) -> None:
        """Program every tile through the configuration's noise model, ``inference_time_s`` ago.

        Programming error, drift, accumulated 1/f noise and drift compensation (a digital factor,
        here of both directions) as aihwkit's ``program_analog_weights`` and
        ``drift_analog_weights``.

        Raises
        ------
        InputError
            For a configuration without a noise model, or a time that is not 0 s or more.
        """
        if not is_inference(self.rpu_config):
            raise InputError(
                f"inference_time_s: found {show(inference_time_s)} with "
                f"{type(self.rpu_config).__name__}, allowed: None; only an InferenceRPUConfig has "
                "a noise model."
            )
        _check_time(inference_time_s)
        for tiles in self._tiles:
            for tile in tiles:
                tile.program(float(inference_time_s))

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
            Address of the read in the random streams; ``None`` continues after the last vector.
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
        """Transposed read W^T d of vectors ``d`` (..., out) -> (..., in), as :meth:`read`.

        The digital scales of the outputs multiply ``d`` before it is driven; the policies
        ``fixed`` and ``per_vector`` act on that product, as in aihwkit.
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
        forward = direction == "forward"
        out, inner = self.shape
        drives, lines = (inner, out) if forward else (out, inner)
        name = "read: x" if forward else "read_transpose: d"
        check_vectors(x, name, drives, self.shape, torch.empty(0, dtype=_FLOAT))
        check_reference(reference, torch.empty(self.segments(direction), lines, dtype=_FLOAT))
        policy = self._policy(direction, range_policy)
        flat = x.detach().reshape(-1, drives)
        if flat.shape[0] == 0:
            return x.new_zeros((*x.shape[:-1], lines))
        if not torch.isfinite(flat).all():
            raise self._refusal(direction, "found NaN or infinity, allowed: finite numbers")
        where = position or Position(0, self._next_row[direction])
        y = self._over_tiles(direction, flat, policy, where, reference)
        if not torch.isfinite(y).all():
            raise self._refusal(direction, f"found a result beyond {_FLOAT}, allowed: smaller ones")
        if position is None:
            self._next_row[direction] += flat.shape[0]
        return y.reshape(*x.shape[:-1], lines)

    def _refusal(self, direction: str, what: str) -> ReadError:
        verb = "read" if direction == "forward" else "read_transpose"
        return ReadError(f"{verb} of array {self.path!r}: {what}.")

    def _over_tiles(
        self,
        direction: str,
        x: torch.Tensor,
        policy: str,
        where: Position,
        reference: torch.Tensor | None,
    ) -> torch.Tensor:
        """Sum over the tiles of what each makes of its part of ``x`` (rows, drives)."""
        forward = direction == "forward"
        exact = self._converters[direction].exact
        total = x.new_zeros(x.shape[0], self.shape[0 if forward else 1])
        for row, inner in enumerate(self._inner):
            for column, out in enumerate(self._out):
                tile = self._tiles[row][column]
                source, target, segment = (inner, out, row) if forward else (out, inner, column)
                v = x[:, source] if forward else x[:, source] * tile.scales
                top = 1.0 if forward else float(tile.scales.abs().max())
                scale = self._ranges(direction, policy, v, top)
                y = tile.read(direction, v if exact else v / scale, where)
                if reference is not None:
                    y = y - reference[segment, target]
                if not exact:
                    y = y * scale
                total[:, target] += y * tile.scales if forward else y
        return total

    def _policy(self, direction: str, range_policy: str | None) -> str:
        own = self.range_policy or self._converters[direction].policy
        policy = choice(
            own if range_policy is None else range_policy, RANGE_POLICIES, "range_policy"
        )
        exact = self._converters[direction].exact
        if policy == "held" and self._held[direction] is None and not exact:
            raise no_held_range(self.path, direction)
        return policy

    def _ranges(
        self, direction: str, policy: str, v: torch.Tensor, top: float
    ) -> torch.Tensor | float:
        """Range of each drive vector ``v`` (rows, drives): (rows, 1) or one for all."""
        stage = self._converters[direction]
        least, limit = smallest_range(_FLOAT), stage.limit
        if policy == "fixed":
            return stage.fixed
        if policy == "held":
            held = max((self._held[direction] or 1.0) * top, least)
            return held if limit is None else min(held, limit)
        own = v.abs().amax(dim=1, keepdim=True)
        own = torch.where(own == 0, torch.ones_like(own), own.clamp(min=least))
        return own if limit is None else own.clamp(max=limit)

    def zero_reference(
        self, direction: str, vectors: int, position: Position | None = None
    ) -> torch.Tensor:
        """Mean of ``vectors`` reads without drive, (segments, lines), in converter units.

        aihwkit has no additive offset, so this is what is left of the noise.
        """
        choice(direction, DIRECTIONS, "direction")
        vectors = check_count(vectors, "vectors")
        where = position or Position(0, self._next_row[direction])
        if position is None:
            self._next_row[direction] += vectors
        forward = direction == "forward"
        rows = vectors if self._converters[direction].noisy else 1
        lines = self.shape[0 if forward else 1]
        result = torch.zeros(self.segments(direction), lines, dtype=_FLOAT)
        for row, inner in enumerate(self._inner):
            for column, out in enumerate(self._out):
                source, target, segment = (inner, out, row) if forward else (out, inner, column)
                drive = torch.zeros(rows, source.stop - source.start, dtype=_FLOAT)
                found = self._tiles[row][column].read(direction, drive, where)
                result[segment, target] = found.mean(dim=0)
        return result

    def update(self, x: torch.Tensor, d: torch.Tensor, learning_rate: float) -> None:
        """Change the weight by -learning_rate sum_n d_n x_n^T, as the devices manage to.

        Pulse trains, device response and what follows an update (decay, diffusion, transfers) are
        aihwkit's; an :class:`InferenceRPUConfig` is changed exactly.

        Parameters
        ----------
        x : (..., in)
            Forward inputs.
        d : (..., out)
            Error signals of the same vectors.
        learning_rate : float
            Above 0.

        Raises
        ------
        InputError
            For wrong shapes, as many x as d, NaN or infinity, or a learning rate of 0 or less.
        """
        like = torch.empty(0, dtype=_FLOAT)
        check_vectors(x, "update: x", self.shape[1], self.shape, like)
        check_vectors(d, "update: d", self.shape[0], self.shape, like)
        rate = check_range(learning_rate, "update: learning_rate", _FLOAT)
        if x.shape[:-1] != d.shape[:-1]:
            raise InputError(
                f"update: d: found {tuple(d.shape)}, allowed: {(*x.shape[:-1], self.shape[0])}, "
                "one vector for each of x."
            )
        if not (torch.isfinite(x).all() and torch.isfinite(d).all()):
            raise InputError("update: found NaN or infinity, allowed: finite numbers.")
        flat_x, flat_d = x.detach().reshape(-1, x.shape[-1]), d.detach().reshape(-1, d.shape[-1])
        if flat_x.shape[0] == 0:
            return
        self._updates += 1
        for row, inner in enumerate(self._inner):
            for column, out in enumerate(self._out):
                tile = self._tiles[row][column]
                tile.update(flat_x[:, inner], flat_d[:, out], rate, self._updates)

    def weight(self) -> torch.Tensor:
        """The stored matrix (out, in), digital scales included, as aihwkit's ``get_weights``."""
        columns = [torch.cat([tile.weight() for tile in tiles]) for tiles in self._tiles]
        return torch.cat(columns, dim=1)

    def peak(self, direction: str, x: torch.Tensor) -> float:
        """Largest magnitude that the converters have to drive for ``x`` (..., inner)."""
        choice(direction, DIRECTIONS, "direction")
        return float(x.abs().max())

    def hold_range(self, direction: str, value: float | None) -> None:
        """Set the range of policy ``held`` for one direction, in the input's units (> 0)."""
        choice(direction, DIRECTIONS, "direction")
        self._held[direction] = None if value is None else check_range(value, "held range", _FLOAT)

    def held_range(self, direction: str) -> float | None:
        """The range that policy ``held`` uses for one direction, or None before calibration."""
        return self._held[choice(direction, DIRECTIONS, "direction")]

    def stage(self, direction: str) -> AihwkitConverters:
        """Converters of one direction."""
        return self._converters[choice(direction, DIRECTIONS, "direction")]

    def segments(self, direction: str) -> int:
        """Number of tiles whose partial sums make one output of ``direction``."""
        forward = choice(direction, DIRECTIONS, "direction") == "forward"
        return len(self._inner if forward else self._out)


def _check_time(value: object) -> None:
    number = isinstance(value, int | float) and not isinstance(value, bool) and value >= 0
    if not number or value == math.inf:
        raise InputError(f"inference_time_s: found {show(value)}, allowed: 0 s or more.")


def _cuts(shape: tuple[int, int], rpu_config: object) -> tuple[list[slice], list[slice]]:
    """Input and output lines of each tile, cut evenly below aihwkit's maximal sizes."""
    mapping = rpu_config.mapping  # type: ignore[attr-defined]  # checked
    return _even(shape[1], mapping.max_input_size), _even(shape[0], mapping.max_output_size)


def _even(size: int, most: int) -> list[slice]:
    count = 1 if most <= 0 else -(-size // most)
    base, extra = divmod(size, count)
    starts = [part * base + min(part, extra) for part in range(count + 1)]
    return [slice(a, b) for a, b in pairwise(starts)]
