"""The offset study: what each zero reference cancels, by where an offset enters the chip.

One task is one method (measurement, reference, range policy) on one chip, over the amplitudes of
one offset. Every other offset of the card is 0, all its other flaws stay: so amplitude 0 is the
floor that those leave, and the second yardstick beside backpropagation on the model.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eptsim.base.errors import InputError, SettleError, choice
from eptsim.base.streams import check_seed
from eptsim.chip import Chip
from eptsim.ep.controller import EPController
from eptsim.ep.gradient import Gradient
from eptsim.ep.options import Options
from eptsim.results.store import is_done, result_path, write_result
from eptsim.studies.bench import Bench
from eptsim.studies.offset_rows import Row, measured_row, refused_row, variables

ENTRIES = {"transpose": "transpose.offset", "node": "node.offset", "forward": "forward.offset"}
"""Where an offset enters, and the card's entry for it."""


@dataclass(frozen=True)
class Method:
    """A way to measure: see :class:`eptsim.EPController` for the names.

    ``beta`` None: the controller's default, 0.01, or 1 for predictive coding.
    """

    measurement: str
    reference: str
    range_policy: str = "held"
    beta: float | None = None


ONE_SIDED = tuple(Method("one_sided", place) for place in ("none", "weight", "node", "line"))
CENTRED = tuple(Method("centred", place) for place in ("none", "line"))
PREDICTIVE_CODING = Method("predictive_coding", "none")
PER_VECTOR = Method("one_sided", "weight", "per_vector")

Plan = tuple[tuple[str, tuple[Method, ...], tuple[float, ...]], ...]
"""For each place where an offset enters: the methods and the amplitudes there."""

DEFAULT_PLAN: Plan = (
    ("transpose", (*ONE_SIDED, PER_VECTOR, *CENTRED, PREDICTIVE_CODING),
     (0.0, 0.002, 0.02, 0.05)),
    ("node", ONE_SIDED, (0.0, 2e-5, 2e-4, 2e-3)),
    ("forward", ONE_SIDED, (0.0, 0.002, 0.02)),
)


@dataclass(frozen=True)
class OffsetStudy:
    """Settings of the study.

    Attributes
    ----------
    plan : tuple of (entry, methods, amplitudes)
        Entry is one of ``ENTRIES``; amplitudes are in the unit of the card's entry, in any order;
        0 is always measured.
    seeds : tuple of int
        Chip seeds.
    reads, max_sweeps, tolerance
        As for :class:`eptsim.EPController`.

    Raises
    ------
    InputError
        A name, amplitude or seed that is not allowed, or nothing to do.
    """

    plan: Plan = DEFAULT_PLAN
    seeds: tuple[int, ...] = (0, 1, 2)
    reads: int = 1
    max_sweeps: int = 50
    tolerance: float | None = None

    def __post_init__(self) -> None:
        if not self.plan or not self.seeds:
            raise InputError("offset study: found no entry or no seed, allowed: 1 or more of each.")
        for seed in self.seeds:
            check_seed(seed)
        for entry, methods, amplitudes in self.plan:
            choice(entry, ENTRIES, "offset study: entry")
            if not methods:
                raise InputError(f"offset study: {entry}: found no method, allowed: 1 or more.")
            for value in amplitudes:
                if not (math.isfinite(value) and value >= 0):
                    raise InputError(
                        f"offset study: {entry} amplitude: found {value!r}, allowed: finite"
                        " numbers of 0 or more."
                    )

    def tasks(self) -> tuple[OffsetTask, ...]:
        """Every task, ordered so that those with the same chip and method follow each other."""
        found = []
        for seed in dict.fromkeys(self.seeds):
            methods = dict.fromkeys(m for _, methods, _ in self.plan for m in methods)
            for method in methods:
                for entry, wanted, amplitudes in self.plan:
                    if method in wanted:
                        values = tuple(sorted({0.0, *map(float, amplitudes)}))
                        found.append(OffsetTask(entry, method, seed, values))
        return tuple(found)


@dataclass(frozen=True)
class OffsetTask:
    """One method on one chip, over the amplitudes of one offset (ascending, from 0)."""

    entry: str
    method: Method
    seed: int
    amplitudes: tuple[float, ...]


@dataclass(frozen=True)
class OffsetProgress:
    """How far the study is.

    Attributes
    ----------
    done, total : int
        Measurements, those of resumed tasks included.
    task : OffsetTask
        The task at work.
    path : Path or None
        Its result, where the task is finished.
    resumed : bool
        Whether the result was there before.
    """

    done: int
    total: int
    task: OffsetTask
    path: Path | None
    resumed: bool


def task_settings(study: OffsetStudy, task: OffsetTask, bench: Bench) -> dict[str, Any]:
    """Return all that decides a task's numbers: its identity. Checks the method on the way."""
    method = task.method
    options = Options.checked(
        method.beta, method.measurement, method.reference, method.range_policy, None,
        study.tolerance, study.max_sweeps, study.reads, bench.model.dtype,
    )
    ep = {key: value for key, value in options.as_settings().items() if key != "sweeps"}
    return {
        "kind": "offset study",
        "version": 1,
        "entry": task.entry,
        "amplitudes": list(task.amplitudes),
        "chip_seed": task.seed,
        "ep": ep,
        "bench": bench.settings,
    }


def run_offsets(
    study: OffsetStudy, bench: Bench, folder: str | os.PathLike[str], *, fresh: bool = False
) -> Iterator[OffsetProgress]:
    """Run every task that has no result in ``folder`` yet, and write one file per task.

    Yields after every measurement, and once for each task found finished. With ``fresh`` all are
    measured anew. A phase that does not settle is a result: outcome and reason, and no numbers.

    Raises
    ------
    InputError, ResultsError
        For settings out of range, before anything runs; a file that is broken or cannot be written.
    """
    tasks = study.tasks()
    settings = {task: task_settings(study, task, bench) for task in tasks}
    total = sum(len(task.amplitudes) for task in tasks)
    done = 0
    bare = _Bare(bench, study)
    for task in tasks:
        if not fresh and is_done(folder, settings[task]):
            done += len(task.amplitudes)
            found = result_path(folder, settings[task])
            yield OffsetProgress(done, total, task, found, resumed=True)
            continue
        rows: list[Row] = []
        for amplitude in task.amplitudes:
            rows.append(bare.row(task) if amplitude == 0 else _row(bare, task, amplitude))
            done += 1
            if len(rows) < len(task.amplitudes):
                yield OffsetProgress(done, total, task, None, resumed=False)
        path = _write(folder, settings[task], task, rows, bench)
        yield OffsetProgress(done, total, task, path, resumed=False)


class _Bare:
    """The chip without offsets: the last one measured is kept, for its tasks follow each other."""

    def __init__(self, bench: Bench, study: OffsetStudy) -> None:
        self.bench = bench
        self.study = study
        self._key: tuple[Method, int] | None = None
        self._found: Gradient | SettleError = SettleError("nothing measured")

    def found(self, task: OffsetTask) -> Gradient | SettleError:
        """Gradient of the task's method and chip without offsets, or why there is none."""
        key = (task.method, task.seed)
        if self._key != key:
            self._found = measured(self.bench, self.study, task, {})
            self._key = key
        return self._found

    def row(self, task: OffsetTask) -> Row:
        """The row of amplitude 0."""
        return _as_row(self, task, self.found(task))


def _row(bare: _Bare, task: OffsetTask, amplitude: float) -> Row:
    changes = {ENTRIES[task.entry]: amplitude}
    return _as_row(bare, task, measured(bare.bench, bare.study, task, changes))


def _as_row(bare: _Bare, task: OffsetTask, found: Gradient | SettleError) -> Row:
    if isinstance(found, SettleError):
        return refused_row(found, bare.bench.model.shape.num_hidden_layers)
    free = bare.found(task)
    return measured_row(found, bare.bench.exact, free if isinstance(free, Gradient) else None)


def measured(
    bench: Bench, study: OffsetStudy, task: OffsetTask, offsets: Mapping[str, float]
) -> Gradient | SettleError:
    """Gradient on a new chip with only these ``offsets``, or why no phase settled."""
    card = bench.card.override({**dict.fromkeys(ENTRIES.values(), 0.0), **offsets})
    chip = Chip(bench.model, card, task.seed)
    method = task.method
    controller = EPController(
        chip, method.beta, method.measurement, method.reference, method.range_policy,
        tolerance=study.tolerance, max_sweeps=study.max_sweeps, reads=study.reads,
    )
    try:
        return controller.gradient(bench.tokens, bench.targets)
    except SettleError as error:
        return error


def _write(
    folder: str | os.PathLike[str],
    settings: Mapping[str, Any],
    task: OffsetTask,
    rows: list[Row],
    bench: Bench,
) -> Path:
    arrays, coords = variables(rows, task.amplitudes, bench.exact.loss)
    return write_result(
        folder, settings, arrays, coords, {"title": "eptsim offset study"},
        seed=task.seed, card_text=bench.card.text(),
    )
