"""Running the checks against a factory."""

from __future__ import annotations

import fnmatch
import time
import traceback
from collections.abc import Callable, Sequence
from typing import TypeAlias

import torch

from eptsim.base.errors import InputError, nearest
from eptsim.testing import (
    adjointness,
    circuits,
    converters,
    exactness,
    flaws,
    invariance,
    knobs,
    moves,
    noise,
    refusals,
)
from eptsim.testing.bench import Bench, Factory, Refused
from eptsim.testing.check import Check
from eptsim.testing.report import Report, Row

Progress: TypeAlias = Callable[[Row, int, int], None]

_TOPICS = (
    exactness, adjointness, circuits, invariance, refusals, converters, noise, flaws, moves, knobs
)


def all_checks() -> tuple[Check, ...]:
    """Every check, in the order in which they run."""
    return tuple(check for topic in _TOPICS for check in topic.CHECKS)


def conformance(
    factory: Factory,
    *,
    only: str | Sequence[str] | None = None,
    slow: bool = True,
    progress: Progress | None = None,
    dtype: torch.dtype = torch.float32,
    device: str = "cpu",
) -> Report:
    """Put the crossbars of ``factory`` through the suite.

    Parameters
    ----------
    factory : callable
        ``factory(weight, card, seed)`` returns a crossbar for a weight (out, in); see
        :class:`eptsim.testing.bench.Factory`. It raises CardError for a card entry that it cannot
        honour: the checks that need the entry are listed as refused then.
    only : str or sequence of str
        Patterns of check ids, as ``"noise/*"``; None runs all.
    slow : bool
        Whether to run the checks that take more than a second or two.
    progress : callable or None
        ``progress(row, done, total)``, called after each check.
    dtype : torch.dtype
        torch.float32 or torch.float64: that of the weights and vectors.
    device : str
        Where they live, ``"cpu"`` or ``"cuda"``.

    Returns
    -------
    Report
        A row for each check; nothing that a check raises is lost.

    Raises
    ------
    InputError
        For a pattern that no check fits.
    """
    bench = Bench(factory, dtype, device)
    checks = [check for check in select(only) if slow or not check.slow]
    rows = []
    for number, check in enumerate(checks, 1):
        row = run_check(check, bench)
        rows.append(row)
        if progress is not None:
            progress(row, number, len(checks))
    return Report(tuple(rows))


def select(only: str | Sequence[str] | None) -> tuple[Check, ...]:
    """The checks whose ids fit one of the patterns ``only``; all for None."""
    checks = all_checks()
    if only is None:
        return checks
    patterns = [only] if isinstance(only, str) else list(only)
    names = [check.id for check in checks]
    for pattern in patterns:
        if not fnmatch.filter(names, pattern):
            raise InputError(
                f"only: found {pattern!r}, which no check fits, allowed: patterns of check ids."
                f"{nearest(pattern, names)}"
            )
    return tuple(
        check for check in checks if any(fnmatch.fnmatchcase(check.id, p) for p in patterns)
    )


def run_check(check: Check, bench: Bench) -> Row:
    """Run one check; whatever it raises becomes the row."""
    start = time.perf_counter()
    try:
        measured = sorted(check.run(bench), key=lambda one: -one.excess)
    except Refused as refusal:
        return Row(check, "refused", str(refusal), time.perf_counter() - start)
    except (Exception, SystemExit):  # noqa: BLE001  # reported with its traceback, as an error
        return Row(check, "error", traceback.format_exc(), time.perf_counter() - start)
    seconds = time.perf_counter() - start
    if not measured:
        return Row(check, "error", "the check measured nothing", seconds)
    broken = [str(one) for one in measured if not one.within]
    if broken:
        return Row(check, "failed", "\n".join(broken), seconds)
    return Row(check, "passed", str(measured[0]), seconds)
