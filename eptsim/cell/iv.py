"""Current of a cell over its voltage: I = G f(V), with f odd.

===========  =====================================================================
law          f(V), in volts
===========  =====================================================================
``linear``   V
``sinh``     v0 sinh(V / v0)
``cubic``    V (1 + (V / v0)^2)
``table``    by points from f(0) = 0, mirrored; beyond the last, the last slope goes on
===========  =====================================================================

Every law rises strictly, so f can be inverted and a Newton step is always defined.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import torch

from eptsim.base.errors import InputError, choice
from eptsim.base.table import Table

Array = npt.NDArray[np.float64]
LAWS = ("linear", "sinh", "cubic", "table")
_SINH_END = 650.0  # exp(650) = 1e282: from here on f goes on along its tangent
_LARGEST = 1e150  # of V / v0, so that its square is a float


def effective_voltage_v(
    v_v: Array, law: str, v0_v: float | None = None, table: Table | None = None
) -> Array:
    """f(V) in volts at the voltages ``v_v`` (V, any shape): what G is to be multiplied with.

    ``v0_v`` (V) belongs to the laws ``sinh`` and ``cubic``, ``table`` (f in V over V) to the law
    ``table``. ``sinh`` goes on along its tangent beyond 650 v0, where exp would overflow.

    Raises
    ------
    InputError
        For an unknown law, a law without its ``v0_v`` or ``table``, or a table that does not
        start at (0, 0) and rise strictly.
    """
    _check(law, v0_v, table)
    v_v = np.asarray(v_v, dtype=np.float64)
    if law == "sinh" and v0_v is not None:
        x = _ratio(v_v, v0_v)
        inner = np.clip(x, -_SINH_END, _SINH_END)
        with np.errstate(over="ignore"):
            return np.asarray(v0_v * (np.sinh(inner) + np.cosh(inner) * (x - inner)))
    if law == "cubic" and v0_v is not None:
        x = _ratio(v_v, v0_v)
        with np.errstate(over="ignore"):
            return v_v * (1.0 + x * x)
    if law == "table" and table is not None:
        size_v = np.abs(v_v)
        beyond_v = np.maximum(size_v - table.x[-1], 0.0)
        return np.asarray(np.copysign(table.at(size_v) + _slopes(table)[-1] * beyond_v, v_v))
    return v_v.copy()


def derivative(
    v_v: Array, law: str, v0_v: float | None = None, table: Table | None = None
) -> Array:
    """df/dV (no unit) at the voltages ``v_v`` (V, any shape), > 0; arguments and errors as above.

    At a point of a table it is the slope of the segment further from 0.
    """
    _check(law, v0_v, table)
    v_v = np.asarray(v_v, dtype=np.float64)
    if law == "sinh" and v0_v is not None:
        x = _ratio(v_v, v0_v)
        return np.asarray(np.cosh(np.clip(x, -_SINH_END, _SINH_END)))
    if law == "cubic" and v0_v is not None:
        x = _ratio(v_v, v0_v)
        return 1.0 + 3.0 * x * x
    if law == "table" and table is not None:
        slopes = _slopes(table)
        segment = np.searchsorted(np.array(table.x), np.abs(v_v), side="right") - 1
        return np.asarray(slopes[np.minimum(segment, len(slopes) - 1)])
    return np.ones_like(v_v)


def drive(
    u: torch.Tensor,
    read_voltage_v: float,
    law: str,
    v0_v: float | None = None,
    table: Table | None = None,
) -> torch.Tensor:
    """f(u V) / f(V): what cells get of a line that is driven with the amplitude u.

    Amplitude coding sets a line to u times V = ``read_voltage_v`` (V, > 0); the current at u = 1
    is the full scale. The result is odd and rises with u; it is exact at -1, 0 and 1. ``v0_v``,
    ``table`` and errors as in :func:`effective_voltage_v`.

    Parameters
    ----------
    u : tensor
        Amplitudes, any shape, floating dtype and device; cut to [-1, 1].

    Returns
    -------
    tensor
        In [-1, 1], of the shape, dtype and device of ``u``; computed in float64.
    """
    _check(law, v0_v, table)
    if not 0.0 < read_voltage_v < math.inf:
        raise InputError(f"read voltage: found {read_voltage_v!r} V, allowed: above 0 V.")
    if law == "linear":
        return u.clamp(-1.0, 1.0)
    size = u.abs().clamp(max=1.0).double()
    driven = size
    if law == "table" and table is not None:
        driven = _drive_table(size, read_voltage_v, table)
    elif v0_v is not None:
        bend = min(read_voltage_v / v0_v, _LARGEST)
        driven = _drive_sinh(size, bend) if law == "sinh" else _drive_cubic(size, bend)
    driven = torch.where(size < 1.0, driven.clamp_(max=1.0), size)  # exact but for this rounding
    return torch.copysign(driven.to(u.dtype), u)


def _drive_sinh(size: torch.Tensor, bend: float) -> torch.Tensor:
    # sinh(u a) / sinh(a) without overflow at a large a or cancellation at a small one
    if bend < 1e-9:  # u (1 - a^2 (1 - u^2) / 6 + ...) is u to float64
        return size
    full = math.expm1(-2.0 * bend)
    fall = size.sub(1.0).mul_(bend).exp_()
    return size.mul(-2.0 * bend).expm1_().div_(full).mul_(fall)


def _drive_cubic(size: torch.Tensor, bend: float) -> torch.Tensor:
    linear = 1.0 / (1.0 + bend * bend)
    return size.square().mul_(1.0 - linear).add_(linear).mul_(size)


def _drive_table(size: torch.Tensor, read_voltage_v: float, table: Table) -> torch.Tensor:
    if read_voltage_v <= table.x[1]:
        return size
    # the curve in units of (V, f(V)), with (1, 1) as its last point
    full_v = float(effective_voltage_v(np.array(read_voltage_v), "table", None, table))
    x_v = np.array(table.x)
    x = x_v[x_v < read_voltage_v] / read_voltage_v
    below = int((x < 1.0).sum())  # a point just below V may have been rounded to it
    x = np.append(x[:below], 1.0)
    y = np.append(np.array(table.y)[:below] / full_v, 1.0)
    start, width, rise = (
        torch.from_numpy(part).to(size.device)
        for part in (np.stack((x[:-1], y[:-1])), np.diff(x), np.diff(y))
    )
    segment = torch.searchsorted(start[0].contiguous(), size.contiguous(), right=True) - 1
    segment = segment.clamp(min=0)  # a NaN stays one through the sum below
    part = (size - start[0][segment]).div_(width[segment]).mul_(rise[segment])
    return part.add_(start[1][segment])


def _ratio(v_v: Array, v0_v: float) -> Array:
    with np.errstate(over="ignore"):
        return np.clip(v_v / v0_v, -_LARGEST, _LARGEST)


def _slopes(table: Table) -> Array:
    return np.asarray(np.diff(table.y) / np.diff(table.x))


def _check(law: str, v0_v: float | None, table: Table | None) -> None:
    choice(law, LAWS, "current-voltage law")
    if law in ("sinh", "cubic") and (v0_v is None or not 0.0 < v0_v < math.inf):
        raise InputError(f"current-voltage law {law!r}: found v0 = {v0_v!r}, allowed: above 0 V.")
    if law != "table":
        return
    if table is None:
        raise InputError("current-voltage law 'table': found no table, allowed: a Table.")
    rising = all(a < b for a, b in zip(table.y, table.y[1:], strict=False))
    if (table.x[0], table.y[0]) != (0.0, 0.0) or not rising:
        raise InputError(
            f"current-voltage law 'table': found a table from ({table.x[0]:g}, {table.y[0]:g}) to "
            f"({table.x[-1]:g}, {table.y[-1]:g}), allowed: one from (0, 0) that rises strictly."
        )
