"""Conductance drift after programming."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt


def drifted(
    g_s: npt.NDArray[np.float64],
    nu: float,
    nu_sigma: float,
    time_s: float,
    t0_s: float,
    normal: npt.NDArray[np.float64],
) -> npt.NDArray[np.float64]:
    """Power-law drift g(t) = g (t / t0)^-nu of conductances ``g_s`` (S, any shape).

    Each cell has its own exponent, Gaussian with mean ``nu`` and standard deviation ``nu_sigma``
    and cut at 0; ``normal`` holds the standard normals. Times in seconds; before ``t0_s`` nothing
    has drifted. Source: Joshi et al., Nat. Commun. 11, 2473 (2020), Eq. 4.
    """
    if time_s <= t0_s:
        return g_s
    exponent = np.maximum(nu + nu_sigma * normal, 0.0)
    # the quotient of the times may overflow, its logarithm cannot
    return np.asarray(g_s * np.exp(-exponent * (math.log(time_s) - math.log(t0_s))))


def compensation(before_s: npt.NDArray[np.float64], after_s: npt.NDArray[np.float64]) -> float:
    """Digital factor that undoes the mean drift of an array, from one reference read of it.

    With all lines driven equally, the summed current is the summed conductance: of
    ``before_s`` (S, any shape, right after programming) and of ``after_s`` (S, the same cells
    now). The factor is the first sum over the second. It is 1 where there is nothing to compare:
    nothing conducted before, or so little does now that the quotient is beyond any float.
    Source: global drift compensation of Joshi et al., Nat. Commun. 11, 2473 (2020).
    """
    before, after = float(np.sum(before_s)), float(np.sum(after_s))
    if before <= 0 or after <= 0:
        return 1.0
    factor = before / after
    return factor if math.isfinite(factor) else 1.0
