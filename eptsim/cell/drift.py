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
