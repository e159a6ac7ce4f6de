"""The converters and line flaws of one direction of one array, frozen when the chip is made."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from eptsim.base.errors import CardError, choice
from eptsim.base.streams import Stream
from eptsim.cards import Card

DIRECTIONS = ("forward", "transpose")
RANGE_POLICIES = ("fixed", "per_vector", "held")


#: Smallest ADC full scale, so that the variance of its noise is a normal float32.
SMALLEST_OUTPUT_RANGE = 1e-12
#: Largest input over the range of an ideal DAC without limits: its square is a normal float32.
LARGEST_DRIVE = 1e15


def smallest_range(dtype: torch.dtype) -> float:
    """Smallest range of an input converter: the codes of 24 bits over it do not overflow.

    Vectors with a smaller maximum are driven at this range (4e-31 in float32).
    """
    return float(torch.finfo(dtype).tiny) * 2.0**25


@dataclass(frozen=True)
class Position:
    """Where a read stands in the random streams: its number and its first vector's row."""

    read: int
    row: int


@dataclass(frozen=True)
class LineStage:
    """One direction's converters and lines.

    Values are in normalised units: the largest stored weight is 1 and a full-scale input is 1.

    Attributes
    ----------
    dac_steps, adc_steps : int or None
        Codes per polarity, 2^(bits - 1) - 1; None is an ideal converter.
    input_limit : float or None
        Largest input magnitude that can be driven, in the input's own units.
    full_scale : float
        ADC full scale; offsets and noise are fractions of it.
    railed : bool
        Whether outputs beyond the full scale are clipped even without an ADC resolution.
    gain, offset : (segments, lines)
        1 + gain error, and offset in normalised units, of each line of each tile segment.
    line_sigma : float
        Standard deviation of the line noise, in normalised units.
    cell_noise : bool
        Whether the cells add read noise of their own.
    exact : bool
        Whether the read is the bare matmul.
    """

    dac_steps: int | None
    adc_steps: int | None
    input_limit: float | None
    full_scale: float
    railed: bool
    gain: torch.Tensor
    offset: torch.Tensor
    line_sigma: float
    cell_noise: bool
    exact: bool

    @property
    def noisy(self) -> bool:
        """Whether two reads of the same input differ."""
        return self.cell_noise or self.line_sigma > 0


def _steps(bits: int | None) -> int | None:
    # one bit is a sign: codes -1, 0, 1
    return None if bits is None else max(2 ** (bits - 1) - 1, 1)


def line_stage(
    card: Card,
    direction: str,
    seed: int,
    path: str,
    shape: tuple[int, int],
    dtype: torch.dtype,
    device: torch.device,
) -> LineStage:
    """Draw the frozen lines of ``direction``; ``shape`` is (segments, lines)."""
    entry = card.direction(choice(direction, DIRECTIONS, "direction"))
    full = entry.full_scale
    _refuse_below(card, f"{direction}.output_range", full, SMALLEST_OUTPUT_RANGE)
    if entry.input_range is not None:
        least = smallest_range(dtype)
        _refuse_below(card, f"{direction}.input_range", entry.input_range, least)
    segments, lines = shape

    def spread(what: str, sigma: float) -> torch.Tensor:
        if sigma == 0:
            return torch.zeros(shape, dtype=dtype, device=device)
        normal = Stream.of(seed, path, direction, what).normal(segments, lines)
        return (sigma * torch.from_numpy(normal).double()).to(device=device, dtype=dtype)

    cell_noise = card.cell.read_noise.law != "none" and card.cell.read_noise.sigma > 0
    exact = (
        entry.dac_bits is None
        and entry.adc_bits is None
        and entry.input_range is None
        and entry.output_range is None
        and not cell_noise
        and max(entry.offset, entry.gain, entry.line_noise) == 0
    )
    return LineStage(
        dac_steps=_steps(entry.dac_bits),
        adc_steps=_steps(entry.adc_bits),
        input_limit=entry.input_range,
        full_scale=full,
        railed=entry.output_range is not None,
        gain=1.0 + spread("gain", entry.gain),
        offset=spread("offset", entry.offset * full),
        line_sigma=entry.line_noise * full,
        cell_noise=cell_noise,
        exact=exact,
    )


def _refuse_below(card: Card, key: str, value: float, least: float) -> None:
    if value < least:
        raise CardError(
            f"card {card.name!r}: {key}: found {value:g}, allowed: at least {least:.2g}, so that "
            "the arithmetic does not overflow."
        )
