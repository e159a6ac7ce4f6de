"""The converters and line flaws of one direction of one array, frozen when the chip is made."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from eptsim.base.errors import CardError, choice
from eptsim.base.streams import Stream
from eptsim.cards import Card
from eptsim.crossbar.wander import wander

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
    """Where a read stands in the random streams: its number and its first vector's row.

    ``time_s`` is when it happens, for what moves with time.
    """

    read: int
    row: int
    time_s: float = 0.0


@dataclass(frozen=True)
class Wander:
    """Offsets that move as Ornstein-Uhlenbeck processes, one per line.

    Attributes
    ----------
    sigma : float
        Standard deviation, in normalised units.
    correlation_s : float
        Correlation time.
    stream : Stream
        Source of the draws.
    """

    sigma: float
    correlation_s: float
    stream: Stream

    def at(self, time_s: float, like: torch.Tensor) -> torch.Tensor:
        """Distance of each offset (segments, lines) from its mean, as a tensor ``like``."""
        found = wander(self.stream, like.shape[0], like.shape[1], time_s, self.correlation_s)
        return torch.from_numpy(self.sigma * found).to(like.device, like.dtype)


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
    wander : Wander or None
        How the offsets move with time.
    cell_noise : bool
        Whether the cells add read noise of their own.
    flicker : bool
        Whether the cells fluctuate with time.
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
    wander: Wander | None
    cell_noise: bool
    flicker: bool
    exact: bool

    @property
    def noisy(self) -> bool:
        """Whether two reads of the same input differ."""
        return self.cell_noise or self.flicker or self.line_sigma > 0 or self.wander is not None

    def offset_at(self, time_s: float) -> torch.Tensor:
        """Offset of each line at ``time_s``, (segments, lines), in normalised units."""
        if self.wander is None:
            return self.offset
        return self.offset + self.wander.at(time_s, self.offset)


def _steps(bits: int | None) -> int | None:
    # one bit is a sign: codes -1, 0, 1
    return None if bits is None else max(2 ** (bits - 1) - 1, 1)


def bends_drive(card: Card) -> bool:
    """Whether an amplitude carries the input and the cells' curve distorts it."""
    return card.array.coding == "amplitude" and card.cell.iv.law != "linear"


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

    cell_noise = card.cell.read_noise.acts
    exact = (
        entry.dac_bits is None
        and entry.adc_bits is None
        and entry.input_range is None
        and entry.output_range is None
        and not cell_noise
        and not bends_drive(card)
        and card.cell.flicker.sigma == 0
        and max(entry.offset, entry.gain, entry.line_noise, entry.offset_drift) == 0
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
        wander=None
        if entry.offset_drift == 0
        else Wander(
            entry.offset_drift * full, entry.offset_time_s,
            Stream.of(seed, path, direction, "wander"),
        ),
        cell_noise=cell_noise,
        flicker=card.cell.flicker.sigma > 0,
        exact=exact,
    )


def _refuse_below(card: Card, key: str, value: float, least: float) -> None:
    if value < least:
        raise CardError(
            f"card {card.name!r}: {key}: found {value:g}, allowed: at least {least:.2g}, so that "
            "the arithmetic does not overflow."
        )
