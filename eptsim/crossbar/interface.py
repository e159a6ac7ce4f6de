"""What a chip and its controller need of an array, whoever simulates it."""

from __future__ import annotations

from typing import Protocol

import torch

from eptsim.crossbar.stages import Position


class Converters(Protocol):
    """The converters of one direction, as the settle loop judges them.

    Values are in normalised units: the largest stored weight is 1 and a full-scale input is 1.
    """

    @property
    def dac_steps(self) -> int | None:
        """Codes per polarity of the input converter; None is ideal."""

    @property
    def adc_steps(self) -> int | None:
        """Codes per polarity of the output converter; None is ideal."""

    @property
    def full_scale(self) -> float:
        """Full scale of the output converter."""

    @property
    def noisy(self) -> bool:
        """Whether two reads of the same input differ."""


class CrossbarLike(Protocol):
    """One weight matrix (out, in), read forward and transposed."""

    path: str
    shape: tuple[int, int]
    dtype: torch.dtype
    device: torch.device

    def read(
        self,
        x: torch.Tensor,
        *,
        range_policy: str | None = None,
        position: Position | None = None,
        reference: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Forward read y = W x of vectors ``x`` (..., in) -> (..., out)."""

    def read_transpose(
        self,
        d: torch.Tensor,
        *,
        range_policy: str | None = None,
        position: Position | None = None,
        reference: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Transposed read W^T d of vectors ``d`` (..., out) -> (..., in)."""

    def zero_reference(
        self, direction: str, vectors: int, position: Position | None = None
    ) -> torch.Tensor:
        """Mean of ``vectors`` reads without drive, (segments, lines), in converter units."""

    def weight(self) -> torch.Tensor:
        """The stored matrix (out, in) as the reads see it; a copy."""

    def peak(self, direction: str, x: torch.Tensor) -> float:
        """Largest magnitude that the converters have to drive for ``x``: the range to hold."""

    def hold_range(self, direction: str, value: float | None) -> None:
        """Set the range of policy ``held`` for one direction, in units of :meth:`peak` (> 0)."""

    def held_range(self, direction: str) -> float | None:
        """The range that policy ``held`` uses for one direction, or None before calibration."""

    def stage(self, direction: str) -> Converters:
        """Converters of one direction."""

    def segments(self, direction: str) -> int:
        """Number of tiles whose partial sums make one output of ``direction``."""
