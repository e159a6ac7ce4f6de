"""``python -m eptsim.testing [NAME=]MODULE:FACTORY ...``: the suite, as one table.

Prints markdown, a column for each factory; ``--into PAGE`` writes it into a page instead, between
the lines ``<!-- table -->`` and ``<!-- end of table -->``. Exits with 1 where one does not
conform, with 2 for arguments that cannot be used.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from eptsim.base.errors import InputError
from eptsim.testing.bench import Factory
from eptsim.testing.loading import load_factory
from eptsim.testing.report import Report, Row, markdown_table
from eptsim.testing.suite import conformance

MARKS = ("<!-- table -->", "<!-- end of table -->")
DTYPES = {"float32": torch.float32, "float64": torch.float64}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the suite on the factories named and write the table to standard output."""
    parser = argparse.ArgumentParser(
        prog="python -m eptsim.testing", description="Conformance of crossbars, as a table."
    )
    parser.add_argument(
        "factory", nargs="+", metavar="[NAME=]MODULE:FACTORY[@DTYPE]",
        help="factory(weight, card, seed), as eptsim.testing:eptsim_crossbar@float64",
    )
    parser.add_argument("--only", action="append", metavar="PATTERN", help="as 'noise/*'")
    parser.add_argument("--fast", action="store_true", help="leave the slow checks out")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--into", type=Path, metavar="PAGE", help="write into a markdown page")
    chosen = parser.parse_args(arguments)
    reports: dict[str, Report] = {}
    try:
        for text in chosen.factory:
            name, factory, dtype = parse(text)
            reports[name] = conformance(
                factory, only=chosen.only, slow=not chosen.fast, dtype=dtype,
                device=chosen.device, progress=_progress,
            )
        table = markdown_table(reports)
        if chosen.into is None:
            sys.stdout.write(table)
        else:
            text = chosen.into.read_text(encoding="utf-8")
            chosen.into.write_text(with_table(text, table), encoding="utf-8")
    except (InputError, OSError) as error:
        parser.error(str(error))
    return 0 if all(report.passed for report in reports.values()) else 1


def with_table(page: str, table: str) -> str:
    """``page`` with ``table`` between its two marks.

    Raises
    ------
    InputError
        For a page without the marks, each on a line of its own, once.
    """
    before, start, rest = page.partition(f"{MARKS[0]}\n")
    _, end, after = rest.partition(MARKS[1])
    if not start or not end:
        raise InputError(f"--into: found no {' ... '.join(MARKS)}, allowed: a page with both.")
    return f"{before}{start}\n{table}\n{end}{after}"


def parse(text: str) -> tuple[str, Factory, torch.dtype]:
    """Name, factory and dtype of ``[NAME=]MODULE:FACTORY[@DTYPE]``.

    Raises
    ------
    InputError
        For another form, a dtype that is not supported, or a factory that is not there.
    """
    name, _, path = text.rpartition("=")
    path, _, dtype = path.partition("@")
    if (dtype or "float32") not in DTYPES:
        raise InputError(
            f"factory: found the dtype {dtype!r} in {text!r}, allowed: {' or '.join(DTYPES)}."
        )
    return name or path, load_factory(path), DTYPES[dtype or "float32"]


def _progress(row: Row, done: int, total: int) -> None:
    end = "\n" if done == total else ""
    sys.stderr.write(f"\r{done}/{total} {row.check.id:<50}{end}")


if __name__ == "__main__":
    sys.exit(main())
