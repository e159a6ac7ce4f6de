"""What programming an array came to: how well it holds its matrix, and which cells do not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from eptsim.crossbar.mapping import Programmed


@dataclass(frozen=True)
class ProgrammingRecord:
    """Outcome of programming one array.

    Attributes
    ----------
    error : float
        Reconstruction error: Frobenius norm of the matrix as stored minus the target, over that
        of the target (0 for an all-zero target stored as such, infinity if it is not).
    largest_error : float
        Largest error of a single weight, in units of the largest weight.
    clipped : float
        Fraction of the weights beyond the scale of their group (``array.clip_percentile``).
    cells, unverified, stuck : int
        Cells written, outside ``cell.programming.verify_tolerance`` at the end, and stuck.
    drift_factor : float
        Digital factor that compensates the drift (``cell.drift.compensation``).
    """

    error: float
    largest_error: float
    clipped: float
    cells: int
    unverified: int
    stuck: int
    drift_factor: float


def programming_record(
    done: Programmed, target: npt.NDArray[np.float64], read_out: npt.NDArray[np.float64]
) -> ProgrammingRecord:
    """Record of ``done``, with ``target`` and the matrix as read out, both (out, in)."""
    scale = float(np.abs(target).max()) or 1.0
    error = (read_out - target) / scale
    size, wanted = float(np.linalg.norm(error)), float(np.linalg.norm(target / scale))
    relative = size / wanted if wanted > 0 else (0.0 if size == 0 else float("inf"))
    counts = done.counts
    return ProgrammingRecord(
        error=relative,
        largest_error=float(np.abs(error).max()),
        clipped=done.clipped,
        cells=counts.written,
        unverified=counts.unverified,
        stuck=counts.stuck,
        drift_factor=done.rescale,
    )
