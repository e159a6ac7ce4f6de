"""Programming the cells of one device of an array: the cell physics of a card, in its order.

Target, clipped to the cell's own window; levels; programming with or without verify; then time:
drift, retention; and what is stuck does neither.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from eptsim.base.streams import Stream
from eptsim.cards import Card
from eptsim.cards.cell_entries import Cell, Stuck
from eptsim.cell.drift import drifted
from eptsim.cell.programming import (
    cell_window,
    programmed,
    programming_sigma_s,
    stuck,
    to_levels,
    write_verify,
)
from eptsim.cell.retention import retained

Array = npt.NDArray[np.float64]

#: Cells that are programmed at a time.
_BLOCK = 2**15
#: Planes of the random streams that one slice takes: g+ or g, g-, reference.
DEVICES_PER_SLICE = 3
#: Read numbers of the draws of one device in its stream.
_ERROR, _STUCK, _DRIFT, _LOW, _HIGH, _STUCK_LEVEL, _VERIFY = range(7)


@dataclass(frozen=True)
class CellCounts:
    """Numbers of cells: all that were written, outside the verify tolerance, stuck."""

    written: int = 0
    unverified: int = 0
    stuck: int = 0

    def __add__(self, other: CellCounts) -> CellCounts:
        return CellCounts(
            self.written + other.written,
            self.unverified + other.unverified,
            self.stuck + other.stuck,
        )


@dataclass(frozen=True)
class Written:
    """Cells after programming.

    Attributes
    ----------
    g_s : (rows, lines)
        Conductances (S) at the time of the card.
    before_s : float
        Their sum (S) right after programming.
    counts : CellCounts
        How many there are, failed to verify, and are stuck.
    """

    g_s: Array
    before_s: float
    counts: CellCounts


def holds_exactly(card: Card) -> bool:
    """Whether every cell holds its target exactly, so that nothing needs to be drawn."""
    cell = card.cell
    programming, drift, spread = cell.programming, cell.drift, cell.spread
    return (
        cell.levels is None
        and (spread.g_min, spread.g_max) == (0, 0)
        and (programming.sigma, programming.sigma_linear, programming.sigma_quadratic) == (0, 0, 0)
        and programming.table is None
        and (drift.nu, drift.nu_sigma) == (0, 0)
        and cell.retention.tau_s is None
        and (cell.stuck.low, cell.stuck.high, cell.stuck.random) == (0, 0, 0)
    )


def program_cells(
    target_s: Array, card: Card, stream: Stream, plane: int, *, levelled: bool = True
) -> Written:
    """Program cells aimed at ``target_s`` (S, rows x lines); ``plane`` numbers their device.

    Without ``levelled``, targets may lie between the card's levels. Rows are worked on in blocks
    that stay in the cache; their draws do not depend on it.
    """
    rows, lines = target_s.shape
    step = max(1, _BLOCK // lines)
    g_s = np.empty_like(target_s)
    before_s, counts = 0.0, CellCounts()
    for start in range(0, rows, step):
        part = slice(start, min(start + step, rows))
        done = _program_rows(target_s[part], card, stream, plane, start, levelled)
        g_s[part] = done.g_s
        before_s += done.before_s
        counts = counts + done.counts
    return Written(g_s, before_s, counts)


def _program_rows(
    target_s: Array, card: Card, stream: Stream, plane: int, first_row: int, levelled: bool
) -> Written:
    cell = card.cell
    rows, lines = target_s.shape

    def normal(read: int) -> Array:
        found = stream.normal(rows, lines, first_row=first_row, read=read, plane=plane)
        return found.astype(np.float64)

    def uniform(read: int) -> Array:
        found = stream.uniform(rows, lines, first_row=first_row, read=read, plane=plane)
        return found.astype(np.float64)

    g_s = to_levels(target_s, cell.g_min_s, cell.g_max_s, cell.levels if levelled else None)
    low_s: Array | float = 0.0
    high_s: Array | float = np.inf
    if cell.spread.g_min > 0 or cell.spread.g_max > 0:
        spread = cell.spread
        low_s, high_s = cell_window(
            cell.g_min_s, cell.g_max_s, spread.g_min, spread.g_max, normal(_LOW), normal(_HIGH)
        )
    programming = cell.programming
    sigma_s = programming_sigma_s(
        g_s, cell.g_max_s, programming.sigma, programming.sigma_linear,
        programming.sigma_quadratic, programming.table,
    )
    unverified = 0
    if programming.verify_tolerance is not None:
        g_s, failed = write_verify(
            g_s, sigma_s, programming.verify_tolerance * cell.g_max_s, programming.verify_rounds,
            lambda attempt: normal(_ERROR if attempt == 0 else _VERIFY + attempt), low_s, high_s,
        )
        unverified = int(failed.sum())
    else:
        g_s = np.clip(g_s, low_s, high_s)
        if sigma_s.any():
            g_s = programmed(g_s, sigma_s, normal(_ERROR))
    return _after_programming(g_s, cell, normal, uniform, unverified)


def _after_programming(
    g_s: Array,
    cell: Cell,
    normal: Callable[[int], Array],
    uniform: Callable[[int], Array],
    unverified: int,
) -> Written:
    """Drift, loss and stuck cells of programmed conductances ``g_s`` (S)."""
    now_s, drift, retention = g_s, cell.drift, cell.retention
    if drift.nu > 0 or drift.nu_sigma > 0:
        now_s = drifted(
            now_s, drift.nu, drift.nu_sigma, drift.time_s, drift.t0_s, normal(_DRIFT)
        )
    if retention.tau_s is not None:
        now_s = retained(
            now_s, cell.g_min_s, cell.g_max_s, drift.time_s, retention.tau_s, retention.stretch,
            retention.level,
        )
    count = 0
    if cell.stuck.low > 0 or cell.stuck.high > 0 or cell.stuck.random > 0:
        where = uniform(_STUCK)
        level = uniform(_STUCK_LEVEL) if cell.stuck.random > 0 else None

        def freeze(g_s: Array) -> Array:
            return stuck(
                g_s, cell.g_min_s, cell.g_max_s, cell.stuck.low, cell.stuck.high, where,
                cell.stuck.random, level,
            )

        count = int(_is_stuck(where, cell.stuck).sum())
        moved = now_s is not g_s
        now_s = freeze(now_s)
        g_s = freeze(g_s) if moved and drift.compensation != "none" else now_s
    counts = CellCounts(g_s.size, unverified, count)
    return Written(now_s, float(g_s.sum()), counts)


def stuck_cells(
    card: Card, stream: Stream, rows: int, lines: int, plane: int
) -> npt.NDArray[np.bool_]:
    """Which cells (rows, lines) that :func:`program_cells` writes cannot be programmed."""
    return _is_stuck(stream.uniform(rows, lines, read=_STUCK, plane=plane), card.cell.stuck)


def _is_stuck(where: npt.NDArray[np.floating[Any]], entry: Stuck) -> npt.NDArray[np.bool_]:
    """Whether each cell with the uniform draw ``where`` is stuck."""
    where = where.astype(np.float64)
    found: npt.NDArray[np.bool_] = (where < entry.low + entry.random) | (where > 1.0 - entry.high)
    return found
