"""Resistive lines and cells with a nonlinear current-voltage curve, together, for one tile.

The unknowns are the voltages u over the cells. With i = g f(u) the cell currents, D the voltages
that the currents lose on the way to and from their cell (sums along the lines) and V the drives,

    u = V - D(i).

Kirchhoff's current law holds at every step, as the currents of the segments are sums of those of
the cells; what Newton's method solves are the voltages, so a resistance of 0 is no limit. A step
takes one sparse solve of the nodal network, linearised, with each cell's error of u as a voltage
source in series with the cell. Circuit and signs are those of :mod:`eptsim.crossbar.wires`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.sparse as sparse
from scipy.sparse.linalg import splu

from eptsim.base.errors import InputError, SettleError
from eptsim.crossbar.wires import Array, checked_conductances, checked_resistances

_WHAT = "solve_tile"
_HALVINGS = 60
Nodes = npt.NDArray[np.int64]
Curve = Callable[[Array], Array]


@dataclass(frozen=True)
class TileSolution:
    """The operating point of one tile.

    Attributes
    ----------
    currents_a : (columns,), amperes
        What each bit line delivers to its sense amplifier.
    cell_voltages_v : (rows, columns), volts
        Voltage over each cell, from its word line to its bit line.
    iterations : int
        Newton steps.
    residual : float
        Largest error of a cell voltage, over the largest cell voltage.
    """

    currents_a: Array
    cell_voltages_v: Array
    iterations: int
    residual: float


def solve_tile(
    g_s: Array,
    v_in_v: Array,
    r_word_ohm: float,
    r_bit_ohm: float,
    current: Curve,
    derivative: Curve,
    *,
    driver_ohm: float = 0.0,
    sense_ohm: float = 0.0,
    tolerance: float = 1e-10,
    max_iterations: int = 50,
) -> TileSolution:
    """Currents of one tile whose cells carry g f(V), through resistive lines.

    Newton's method with a step that is halved until the error falls, from cells without voltage.

    Parameters
    ----------
    g_s : (rows, columns), siemens
        Cell conductances, all >= 0.
    v_in_v : (rows,), volts
        Drive of each word line.
    r_word_ohm, r_bit_ohm, driver_ohm, sense_ohm : float
        As of :func:`eptsim.effective_conductance`, each >= 0.
    current, derivative : callable
        f (volts to volts, rising) and f' (no unit, > 0), each for an array of any shape.
    tolerance : float
        Of the largest error of a cell voltage, over the largest cell voltage; above 0.
    max_iterations : int
        Newton steps at most.

    Raises
    ------
    InputError
        For arguments out of these ranges, and where f or f' is not finite, f' not above 0 or the
        shape is not kept.
    SettleError
        Where the error is above ``tolerance`` after ``max_iterations`` steps or cannot be reduced.
    """
    g = checked_conductances(_WHAT, g_s)
    _check(g, v_in_v, tolerance, max_iterations)
    resistances = checked_resistances(_WHAT, r_word_ohm, r_bit_ohm, driver_ohm, sense_ohm)
    drive = np.broadcast_to(np.asarray(v_in_v, dtype=np.float64)[:, None], g.shape)
    cells = _Cells(g, current, derivative)
    return _newton(cells, drive, _Network(g, resistances), tolerance, max_iterations)


def _newton(
    cells: _Cells, drive: Array, network: _Network, tolerance: float, steps: int
) -> TileSolution:
    def error(u: Array) -> Array:
        with np.errstate(over="ignore", invalid="ignore"):
            return drive - network.lost(cells.current(u)) - u

    u = np.zeros_like(drive)
    now = error(u)
    if not np.isfinite(now).all():
        raise InputError(
            f"{_WHAT}: current: found a value that is not finite at 0 V, allowed: finite values."
        )
    for step in range(steps + 1):
        residual = _relative(now, u)
        if residual <= tolerance:
            return TileSolution(cells.current(u).sum(axis=0), u, step, residual)
        if step < steps:
            u, now = _damped(u, now, network.step(cells.slope(u), now), error)
    raise SettleError(
        f"{_WHAT}: found a cell voltage still off by {residual:.1e} of the largest one after "
        f"{steps} Newton steps, allowed: {tolerance:.1e}; allow more steps, or drive the tile less."
    )


def _damped(
    u: Array, now: Array, full: Array, error: Callable[[Array], Array]
) -> tuple[Array, Array]:
    """The first of u + full, u + full / 2, ... whose error is smaller, and that error."""
    size = np.linalg.norm(now)
    part = 1.0
    for _ in range(_HALVINGS):
        there = u + part * full
        then = error(there)
        if np.linalg.norm(then) <= (1.0 - 1e-4 * part) * size:  # false where it is not finite
            return there, then
        part *= 0.5
    raise SettleError(
        f"{_WHAT}: found no step that reduces the error of the cell voltages from "
        f"{np.abs(now).max():.1e} V, allowed: a current that rises with the voltage, and a "
        "tolerance that rounding can reach."
    )


@dataclass(frozen=True)
class _Cells:
    g: Array
    curve: Curve
    derivative: Curve

    def current(self, u: Array) -> Array:
        """Currents (A) at the cell voltages u (V)."""
        return self.g * _values("current", self.curve, u)

    def slope(self, u: Array) -> Array:
        """Slopes (S) of the currents."""
        slope = _values("derivative", self.derivative, u)
        if not (np.isfinite(slope).all() and (slope > 0).all()):
            raise InputError(
                f"{_WHAT}: derivative: found {slope.min():g} to {slope.max():g}, allowed: finite "
                "values above 0."
            )
        return self.g * slope


class _Network:
    """The lines of a tile: the voltages lost in them, and Newton steps."""

    def __init__(self, g: Array, resistances: tuple[float, float, float, float]) -> None:
        self.shape = g.shape
        self.word, self.first, self.bit, self.last = resistances
        rows, columns = g.shape
        # a line without resistance between its cells is one node; without any, it is none (-1)
        row, column = np.indices(g.shape)
        none = np.full(g.shape, -1)
        words = row * columns + column if self.word else row if self.first else none
        bits = column * rows + row if self.bit else column if self.last else none
        self.word_node: Nodes = np.asarray(words, dtype=np.int64)
        self.nodes = int(self.word_node.max()) + 1
        self.bit_node: Nodes = np.where(bits < 0, -1, bits + self.nodes)
        self.nodes = max(self.nodes, int(self.bit_node.max()) + 1)
        self.lines = self._lines()

    def lost(self, i: Array) -> Array:
        """Voltages (V) between each cell and the two ends of its lines, at cell currents i (A)."""
        along = np.cumsum(i[:, ::-1], axis=1)[:, ::-1]  # in the segment before each cell
        fall = self.word * np.cumsum(along, axis=1) + (self.first - self.word) * along[:, :1]
        down = np.cumsum(i, axis=0)
        rise = self.bit * np.cumsum(down[::-1], axis=0)[::-1]
        lost: Array = fall + rise + (self.last - self.bit) * down[-1:]
        return lost

    def step(self, slope: Array, error: Array) -> Array:
        """Newton step of the cell voltages (V) for cells of conductance ``slope`` (S)."""
        if self.nodes == 0:
            return error
        cells = _joined(self.word_node, self.bit_node, slope, self.nodes)
        source = np.zeros(self.nodes + 1)  # the last one stands for the ends of the lines
        np.add.at(source, self.word_node, -slope * error)
        np.add.at(source, self.bit_node, slope * error)
        try:
            v = splu((self.lines + cells).tocsc()).solve(source[:-1])
        except RuntimeError as problem:
            raise SettleError(
                f"{_WHAT}: found a network that cannot be solved ({problem}), allowed: resistances "
                "and conductances within about 15 orders of magnitude."
            ) from problem
        v = np.append(v, 0.0)
        moved: Array = error + v[self.word_node] - v[self.bit_node]
        return moved

    def _lines(self) -> sparse.csr_array:
        total = sparse.csr_array((self.nodes, self.nodes))
        for nodes, between, end in (
            (self.word_node, self.word, self.first), (self.bit_node.T[:, ::-1], self.bit, self.last)
        ):  # fmt: skip
            if end:
                ends = np.full(len(nodes), -1)
                one = np.full(len(nodes), 1.0 / end)
                total = total + _joined(nodes[:, 0], ends, one, self.nodes)
            if between:
                many = np.full(nodes[:, 1:].shape, 1.0 / between)
                total = total + _joined(nodes[:, :-1], nodes[:, 1:], many, self.nodes)
        return total


def _joined(a: Nodes, b: Nodes, conductance: Array, nodes: int) -> sparse.csr_array:
    """Nodal matrix of conductances between the nodes a and b, of which -1 is at a fixed voltage."""
    a, b, y = a.ravel(), b.ravel(), conductance.ravel()
    i, j = np.concatenate((a, b, a, b)), np.concatenate((a, b, b, a))
    values = np.concatenate((y, y, -y, -y))
    kept = (i >= 0) & (j >= 0)
    return sparse.csr_array((values[kept], (i[kept], j[kept])), shape=(nodes, nodes))


def _relative(error: Array, u: Array) -> float:
    size = float(np.abs(error).max())
    return 0.0 if size == 0.0 else size / max(float(np.abs(u).max()), math.ulp(0.0))


def _values(name: str, curve: Curve, u: Array) -> Array:
    if not callable(curve):
        raise InputError(
            f"{_WHAT}: {name}: found {type(curve).__name__}, allowed: a function of an array of "
            "volts."
        )
    try:
        values = np.asarray(curve(u), dtype=np.float64)
    except (TypeError, ValueError, ArithmeticError) as error:
        raise InputError(
            f"{_WHAT}: {name}: found a function that raises {type(error).__name__} ({error}), "
            "allowed: one that takes an array of volts and returns numbers, one for each."
        ) from error
    if values.shape != u.shape:
        raise InputError(f"{_WHAT}: {name}: found shape {values.shape}, allowed: {u.shape}.")
    return values


def _check(g: Array, v_in_v: object, tolerance: object, max_iterations: object) -> None:
    if g.ndim != 2:
        raise InputError(f"{_WHAT}: g_s: found shape {g.shape}, allowed: (rows, columns).")
    if not isinstance(v_in_v, np.ndarray) or v_in_v.dtype.kind not in "fiu":
        raise InputError(f"{_WHAT}: v_in_v: found {v_in_v!r}, allowed: an array of real numbers.")
    if v_in_v.shape != g.shape[:1] or not np.isfinite(v_in_v).all():
        raise InputError(
            f"{_WHAT}: v_in_v: found shape {v_in_v.shape} or a value that is not finite, allowed: "
            f"{g.shape[:1]} finite voltages."
        )
    if not (isinstance(tolerance, float) and 0.0 < tolerance < 1.0):
        raise InputError(f"{_WHAT}: tolerance: found {tolerance!r}, allowed: between 0 and 1.")
    steps = max_iterations
    if not isinstance(steps, int) or isinstance(steps, bool) or steps < 1:
        raise InputError(f"{_WHAT}: max_iterations: found {max_iterations!r}, allowed: 1 or more.")
