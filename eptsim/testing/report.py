"""What came out of a run of the suite, and its tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from eptsim.testing.check import Check

Status: TypeAlias = Literal["passed", "failed", "refused", "error"]
STATUSES: tuple[Status, ...] = ("passed", "failed", "refused", "error")


@dataclass(frozen=True)
class Row:
    """The outcome of one check.

    Attributes
    ----------
    check : Check
        What was checked.
    status : str
        ``passed``; ``failed``: a limit is broken; ``refused``: the factory refused the card, which
        is allowed; ``error``: something was raised that should not be.
    detail : str
        What was measured and the limit, the worst first; the refusal; or the traceback.
    seconds : float
        Time it took.
    """

    check: Check
    status: Status
    detail: str
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether a conforming crossbar may come out like this."""
        return self.status in ("passed", "refused")


@dataclass(frozen=True)
class Report:
    """The outcome of a run.

    Attributes
    ----------
    rows : tuple of Row
        In the order of the suite.
    """

    rows: tuple[Row, ...]

    @property
    def passed(self) -> bool:
        """Whether no check failed or raised an error; refusals are allowed.

        False for a run in which everything was refused: nothing was shown then.
        """
        return all(row.ok for row in self.rows) and any(row.status == "passed" for row in self.rows)

    def counts(self) -> dict[Status, int]:
        """Number of rows of each status."""
        return {name: sum(row.status == name for row in self.rows) for name in STATUSES}

    def of(self, status: Status) -> tuple[Row, ...]:
        """The rows with one status."""
        return tuple(row for row in self.rows if row.status == status)

    def text(self) -> str:
        """A plain table, with the reasons of what did not pass."""
        width = max((len(row.check.id) for row in self.rows), default=0)
        lines = []
        for row in self.rows:
            detail = row.detail.strip().splitlines()
            note = "" if not detail else detail[-1] if row.status == "error" else detail[0]
            lines.append(f"{row.check.id:<{width}}  {row.status:<7}  {note}".rstrip())
        summary = ", ".join(f"{n} {status}" for status, n in self.counts().items())
        return "\n".join([*lines, summary])

    def markdown(self, name: str = "status") -> str:
        """The table of one report, see :func:`markdown_table`."""
        return markdown_table({name: self})

    def __str__(self) -> str:
        return self.text()


def markdown_table(reports: Mapping[str, Report]) -> str:
    """One table of several reports (name -> report), a column each, with counts at its end.

    A check that a report did not run shows "-". The reasons of failures and errors follow below.
    """
    checks: dict[str, Check] = {}
    for report in reports.values():
        checks |= {row.check.id: row.check for row in report.rows}
    found = {
        name: {row.check.id: row.status for row in report.rows} for name, report in reports.items()
    }
    head = ["check", "claim", "compared with", *reports]
    lines = [_line(head), _line(["---"] * len(head))]
    for identity, check in sorted(checks.items(), key=lambda item: _topics(checks)[item[1].topic]):
        cells = [f"`{identity}`", check.claim, check.truth]
        lines.append(_line([*cells, *(found[name].get(identity, "-") for name in reports)]))
    for status in STATUSES:
        totals = [str(report.counts()[status]) for report in reports.values()]
        lines.append(_line([f"**{status}**", "", "", *totals]))
    broken = [
        f"- `{row.check.id}` on {name}, {row.status}: {_last(row.detail)}"
        for name, report in reports.items()
        for row in report.rows
        if not row.ok
    ]
    return "\n".join([*lines, *(["", *broken] if broken else [])]) + "\n"


def _topics(checks: Mapping[str, Check]) -> dict[str, int]:
    names = list(dict.fromkeys(check.topic for check in checks.values()))
    return {name: number for number, name in enumerate(names)}


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _last(detail: str) -> str:
    return (detail.strip().splitlines() or [""])[-1]
