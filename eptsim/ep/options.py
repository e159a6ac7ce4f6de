"""The settings of one measurement, checked."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from numbers import Integral, Real

import torch

from eptsim.base.errors import InputError, choice
from eptsim.crossbar.stages import RANGE_POLICIES

MEASUREMENTS = ("one_sided", "centred", "frozen", "predictive_coding")
REFERENCES = ("none", "weight", "node", "line", "line+weight", "line+node")
DEFAULT_BETA = 0.01
#: Magnitudes of beta within which the squared mismatches, and 1/beta, stay finite in float32.
SMALLEST_BETA, LARGEST_BETA = 1e-12, 1e4
#: Predictive coding as usually run clamps the target hard.
PREDICTIVE_CODING_BETA = 1.0
#: Relative residual at which a phase is settled, by dtype.
DEFAULT_TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-10}
#: A hard clamp settles slowly and is biased by far more than this.
HARD_TOLERANCE = 1e-3


@dataclass(frozen=True)
class Options:
    """Settings of one measurement; see :class:`eptsim.EPController` for their meaning."""

    beta: float
    measurement: str
    reference: str
    range_policy: str
    sweeps: int | None
    tolerance: float
    max_sweeps: int
    reads: int

    @property
    def references(self) -> tuple[str, ...]:
        """The places where the free phase is subtracted."""
        return tuple(self.reference.split("+"))

    @classmethod
    def checked(
        cls,
        beta: float | None,
        measurement: str,
        reference: str | None,
        range_policy: str,
        sweeps: int | None,
        tolerance: float | None,
        max_sweeps: int,
        reads: int,
        dtype: torch.dtype,
    ) -> Options:
        """Fill defaults in and refuse what is not allowed (InputError)."""
        choice(measurement, MEASUREMENTS, "measurement")
        hard = measurement == "predictive_coding"
        if reference is None:
            reference = "none" if hard else "line"
        if beta is None:
            beta = PREDICTIVE_CODING_BETA if hard else DEFAULT_BETA
        if sweeps is not None and tolerance is not None:
            raise InputError(
                f"sweeps: found {sweeps!r} together with tolerance {tolerance!r}, "
                "allowed: one of the two."
            )
        if tolerance is None:
            tolerance = HARD_TOLERANCE if hard else DEFAULT_TOLERANCE[dtype]
        return cls(
            _real(
                beta,
                "beta",
                f"a number of magnitude {SMALLEST_BETA:g} to {LARGEST_BETA:g}",
                lambda b: SMALLEST_BETA <= abs(b) <= LARGEST_BETA,
            ),
            measurement,
            _reference(reference),
            choice(range_policy, RANGE_POLICIES, "range_policy"),
            None if sweeps is None else _count(sweeps, "sweeps"),
            math.inf
            if sweeps is not None
            else _real(tolerance, "tolerance", "a number above 0 and below 1", _in_unit),
            _count(max_sweeps, "max_sweeps"),
            _count(reads, "reads"),
        )

    def as_settings(self) -> dict[str, object]:
        """Plain finite values for results and hashes; as arguments they mean the same again."""
        return {**asdict(self), "tolerance": self.tolerance if self.sweeps is None else None}


def _in_unit(value: float) -> bool:
    return 0 < value < 1


def _reference(reference: object) -> str:
    """``reference`` with its parts in the canonical order ("line" first)."""
    if isinstance(reference, str) and "+" in reference:
        parts = sorted((part.strip() for part in reference.split("+")), key=lambda p: p != "line")
        reference = "+".join(parts)
    return choice(reference, REFERENCES, "reference")


def _real(value: object, name: str, allowed: str, test: Callable[[float], bool]) -> float:
    number = math.nan if isinstance(value, bool) or not isinstance(value, Real) else float(value)
    if not (math.isfinite(number) and test(number)):
        raise InputError(f"{name}: found {value!r}, allowed: {allowed}.")
    return number


def _count(value: object, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise InputError(f"{name}: found {value!r}, allowed: an integer of 1 or more.")
    return int(value)
