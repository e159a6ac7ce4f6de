"""Factories of the two backends: eptsim's own crossbar, and aihwkit's tiles."""

from __future__ import annotations

import math
from typing import Any

import torch

from eptsim.base.errors import CardError
from eptsim.cards import Card
from eptsim.cards.array_entries import Direction
from eptsim.cards.schema import SCHEMA
from eptsim.crossbar.aihwkit_tile import AihwkitCrossbar
from eptsim.crossbar.checks import check_weight
from eptsim.crossbar.crossbar import Crossbar
from eptsim.crossbar.interface import Converters, CrossbarLike
from eptsim.crossbar.stages import Position

_LINES = ("dac_bits", "adc_bits", "input_range", "output_range", "line_noise")
AIHWKIT_ENTRIES = frozenset({
    "cell.g_min_s", "cell.g_max_s", "cell.read_noise.law", "cell.read_noise.sigma", "array.rows",
    "array.columns", *(f"{d}.{key}" for d in ("forward", "transpose") for key in _LINES),
})  # fmt: skip
"""The card entries that an aihwkit configuration can express; of the noise laws, 'constant'."""


def eptsim_crossbar(weight: torch.Tensor, card: Card, seed: int) -> Crossbar:
    """Eptsim's own crossbar of ``weight`` (out, in)."""
    return Crossbar(weight, card, seed)


class ArrayScaled:
    """A crossbar behind one digital factor: y = scale (W / scale) x, in both directions.

    aihwkit scales the weights of each tile by themselves, or not at all; on a card one scale
    belongs to the array, so that all its tiles convert in the same units. Ranges, converters and
    references are those of the crossbar inside; see
    :class:`eptsim.crossbar.interface.CrossbarLike` for the methods.

    Parameters
    ----------
    inside : CrossbarLike
        Holds the weight over ``scale``.
    scale : float
        The factor, above 0.
    """

    def __init__(self, inside: CrossbarLike, scale: float) -> None:
        self._inside, self._scale = inside, scale
        self.path, self.shape = inside.path, inside.shape
        self.dtype, self.device = inside.dtype, inside.device

    def read(
        self,
        x: torch.Tensor,
        *,
        range_policy: str | None = None,
        position: Position | None = None,
        reference: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Forward read of vectors ``x`` (..., in) -> (..., out)."""
        y = self._inside.read(
            x, range_policy=range_policy, position=position, reference=reference
        )
        return y * self._scale

    def read_transpose(
        self,
        d: torch.Tensor,
        *,
        range_policy: str | None = None,
        position: Position | None = None,
        reference: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Transposed read of vectors ``d`` (..., out) -> (..., in)."""
        y = self._inside.read_transpose(
            d, range_policy=range_policy, position=position, reference=reference
        )
        return y * self._scale

    def zero_reference(
        self, direction: str, vectors: int, position: Position | None = None
    ) -> torch.Tensor:
        """Mean of ``vectors`` reads without drive, (segments, lines), in converter units."""
        return self._inside.zero_reference(direction, vectors, position)

    def weight(self) -> torch.Tensor:
        """The stored matrix (out, in); a copy."""
        return self._inside.weight() * self._scale

    def hold_range(self, direction: str, value: float | None) -> None:
        """Set the range of policy ``held``."""
        self._inside.hold_range(direction, value)

    def held_range(self, direction: str) -> float | None:
        """The range of policy ``held``."""
        return self._inside.held_range(direction)

    def stage(self, direction: str) -> Converters:
        """Converters of one direction."""
        return self._inside.stage(direction)

    def segments(self, direction: str) -> int:
        """Number of tiles whose partial sums make one output."""
        return self._inside.segments(direction)


def aihwkit_crossbar(weight: torch.Tensor, card: Card, seed: int) -> ArrayScaled:
    """Aihwkit's tiles of ``weight`` (out, in), configured as the card says.

    Raises
    ------
    CardError
        For an entry, other than default, that no aihwkit configuration expresses exactly.
    InputError
        As :class:`AihwkitCrossbar`: for a missing aihwkit, or a weight that is not float32 on the
        CPU.
    """
    config = aihwkit_config(card)
    check_weight(weight, "crossbar")
    scale = float(weight.abs().max()) or 1.0
    inside = AihwkitCrossbar(weight / scale, config, seed, range_policy="per_vector")
    return ArrayScaled(inside, scale)


def aihwkit_config(card: Card) -> object:
    """The ``SingleRPUConfig`` that means what ``card`` says.

    ====================  ==========================================================================
    card                  aihwkit
    ====================  ==========================================================================
    ``dac_bits`` b        ``inp_res`` = 1 / (2^b - 2), ``inp_bound`` 1 (of the range)
    ``adc_bits`` b        ``out_res`` = 1 / (2^b - 2), of ``out_bound``
    ``input_range``       ``nm_thres``
    ``output_range``      ``out_bound``
    ``line_noise``        ``out_noise`` = line_noise x full scale
    constant read noise   ``w_noise`` = sqrt(2) sigma g_max / (g_max - g_min), of a pair of cells
    ``rows, columns``     ``max_input_size``, ``max_output_size``
    ====================  ==========================================================================

    Weights are stored as they are (``weight_scaling_omega`` = 0), up to 1.
    """
    _refuse_others(card)
    from aihwkit.simulator.configs import SingleRPUConfig
    from aihwkit.simulator.configs.devices import ConstantStepDevice
    from aihwkit.simulator.parameters import MappingParameter

    return SingleRPUConfig(
        device=ConstantStepDevice(w_max=1.0, w_min=-1.0, w_max_dtod=0.0, w_min_dtod=0.0),
        forward=_io(card, card.forward),
        backward=_io(card, card.transpose),
        mapping=MappingParameter(
            weight_scaling_omega=0.0,
            max_input_size=card.array.rows or 0,
            max_output_size=card.array.columns or 0,
        ),
    )


def _io(card: Card, entry: Direction) -> Any:
    """The ``IOParameters`` of one direction; IOParameters is not annotated."""
    from aihwkit.simulator.parameters import (
        BoundManagementType,
        IOParameters,
        NoiseManagementType,
        WeightNoiseType,
    )

    cell, noise = card.cell, card.cell.read_noise
    constant = noise.law == "constant" and noise.sigma > 0
    sigma = math.sqrt(2.0) * noise.sigma * cell.g_max_s / (cell.g_max_s - cell.g_min_s)
    clips_input = entry.dac_bits is not None or entry.input_range is not None
    clips_output = entry.adc_bits is not None or entry.output_range is not None
    return IOParameters(
        inp_bound=1.0 if clips_input else 0.0,
        inp_res=_resolution(entry.dac_bits),
        out_bound=entry.full_scale if clips_output else 0.0,
        out_res=_resolution(entry.adc_bits),
        out_noise=entry.line_noise * entry.full_scale,
        w_noise=sigma if constant else 0.0,
        w_noise_type=WeightNoiseType.ADDITIVE_CONSTANT if constant else WeightNoiseType.NONE,
        bound_management=BoundManagementType.NONE,
        noise_management=NoiseManagementType.ABS_MAX,
        nm_thres=entry.input_range or 0.0,
    )


def _resolution(bits: int | None) -> float:
    if bits is None:
        return -1.0
    return 1.0 / (2 * max((1 << (bits - 1)) - 1, 1))


def _refuse_others(card: Card) -> None:
    found = [
        entry.key
        for entry in card.entries()
        if entry.value != SCHEMA[entry.key].default and entry.key not in AIHWKIT_ENTRIES
    ]
    law = card.cell.read_noise.law
    if law not in ("none", "constant"):
        found.append("cell.read_noise.law")
    if found:
        raise CardError(
            f"card {card.name!r} on aihwkit: {', '.join(found)}: found other than default, "
            "allowed: entries that an aihwkit configuration expresses, which are "
            f"{', '.join(sorted(AIHWKIT_ENTRIES))} (read noise 'constant')."
        )
