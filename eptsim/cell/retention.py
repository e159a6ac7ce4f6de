"""Loss of a stored conductance with time: it relaxes to a level of its window."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

_LARGEST = 700.0  # exp(-exp(700)) is 0 and exp(700) is still a float


def retained(
    g_s: npt.NDArray[np.float64],
    g_min_s: float,
    g_max_s: float,
    time_s: float,
    tau_s: float | None,
    stretch: float,
    level: float,
) -> npt.NDArray[np.float64]:
    """Conductances (S) left of ``g_s`` (S, any shape) after ``time_s`` (s).

    Stretched exponential (Kohlrausch): G(t) = G_end + (G - G_end) exp(-(t / tau_s)^stretch), with
    G_end = g_min_s + level (g_max_s - g_min_s). ``tau_s`` = None keeps a conductance for ever;
    nothing is lost at ``time_s`` <= 0. ``stretch`` lies in (0, 1], ``level`` in [0, 1].
    """
    if tau_s is None or time_s <= 0:
        return g_s
    end_s = g_min_s + level * (g_max_s - g_min_s)
    # the quotient of the times may overflow, its logarithm cannot
    exponent = math.exp(min(stretch * (math.log(time_s) - math.log(tau_s)), _LARGEST))
    left = math.exp(-exponent)
    return np.asarray(left * g_s + (1.0 - left) * end_s)
