"""What a cell holds after programming: discrete levels, programming error, stuck cells."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


def to_levels(g_s: Array, g_min_s: float, g_max_s: float, levels: int | None) -> Array:
    """Round conductances ``g_s`` (S, any shape) to ``levels`` equally spaced values.

    The lowest level is ``g_min_s`` and the highest ``g_max_s``; ``None`` means a continuous cell.
    """
    if levels is None:
        return g_s
    step_s = (g_max_s - g_min_s) / (levels - 1)
    return g_min_s + np.rint((g_s - g_min_s) / step_s) * step_s


def programmed(g_s: Array, sigma_s: float, normal: Array) -> Array:
    """Add a Gaussian programming error of standard deviation ``sigma_s`` (S) to ``g_s`` (S).

    ``normal`` holds standard normals of the same shape. A conductance cannot be negative, so the
    result is cut at 0 (Joshi et al., Nat. Commun. 11, 2473 (2020), use the same truncation).
    """
    return np.maximum(g_s + sigma_s * normal, 0.0)


def stuck(
    g_s: Array,
    g_min_s: float,
    g_max_s: float,
    low: float,
    high: float,
    uniform: Array,
) -> Array:
    """Put a fraction ``low`` of the cells at ``g_min_s`` and a fraction ``high`` at ``g_max_s``.

    ``uniform`` holds uniforms in (0, 1] of the shape of ``g_s``; ``low + high`` is at most 1.
    """
    result = np.where(uniform < low, g_min_s, g_s)
    return np.where(uniform > 1.0 - high, g_max_s, result)
