"""What a settled, or unsettled, phase reports."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum


class Outcome(Enum):
    """How a phase ended; the closed set of names, each with advice."""

    AT_REST = "at rest: nothing drives the mismatches, the bottom-up pass is the equilibrium"
    HELD = "held: one top-down pass, predictions and Jacobians held at the free phase"
    CONVERGED = "converged: the residual is at or below the tolerance"
    FIXED_SWEEPS = "fixed sweeps: stopped after the number of sweeps asked for"
    NOISE_FLOOR = "noise floor: the residual is what two reads of the same state differ by"
    CONVERTER_FLOOR = "converter floor: the residual stays within the converters' resolution"
    NOT_SETTLED = "not settled: max_sweeps reached above the tolerance; raise either or lower beta"
    DIVERGED = "diverged: the mismatches grow; lower beta"

    @property
    def settled(self) -> bool:
        """Whether the phase may enter a gradient."""
        return self not in (Outcome.NOT_SETTLED, Outcome.DIVERGED)


@dataclass(frozen=True)
class PhaseRecord:
    """One phase of a measurement.

    Attributes
    ----------
    name : str
        "free", "nudged", "nudged+", "nudged-".
    beta : float
        Nudge strength, signed; 0 in the free phase.
    outcome : Outcome
    sweeps : int
        Gauss-Seidel sweeps done (top-down and bottom-up).
    residuals : tuple of tuple of float, (sweeps, L)
        ||dF/dz_l|| over ||d_l|| of each block at the start of each sweep.
    tolerance : float
        Bound on the residual asked for (infinite with a fixed number of sweeps).
    floor : float or None
        Residual between two reads of the same state, where it was measured.
    energies : tuple of float
        1/2 ||d_l||^2 of each block, summed over tokens.
    cross_entropy : float
        Mean over the target tokens at the phase's state, nats.
    layer : int or None
        Block (from 1) where an unsettled phase's residual is largest, or where divergence began.
    """

    name: str
    beta: float
    outcome: Outcome
    sweeps: int
    residuals: tuple[tuple[float, ...], ...]
    tolerance: float
    floor: float | None
    energies: tuple[float, ...]
    cross_entropy: float
    layer: int | None = None

    @property
    def settled(self) -> bool:
        """Whether the phase may enter a gradient."""
        return self.outcome.settled

    @property
    def energy(self) -> float:
        """E, summed over blocks and tokens."""
        return math.fsum(self.energies)

    @property
    def residual(self) -> float:
        """Largest residual of any block at the last sweep; 0 for a phase at rest."""
        return max(self.residuals[-1]) if self.residuals else 0.0

    def describe(self) -> str:
        """One line for people."""
        what = self.outcome.value
        if self.beta == 0:  # nothing to lower: only offsets drive a free phase
            what = what.replace("lower beta", "reduce the offsets that drive it")
        where = "" if self.layer is None else f", block {self.layer}"
        floor = "" if self.floor is None else f", read floor {self.floor:.2g}"
        return (
            f"{self.name} phase (beta {self.beta:g}): {what}; {self.sweeps} sweeps, "
            f"residual {self.residual:.3g}{floor}{where}"
        )
