"""What the verbs show: tables and text for people, JSON for machines, errors on stderr."""

from __future__ import annotations

import json

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text


def console() -> Console:
    """Return a console on standard output."""
    return Console(highlight=False)


def print_json(data: object) -> None:
    """Print ``data`` as JSON on standard output; NaN and infinity are refused."""
    typer.echo(json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False))


def show_error(message: str) -> None:
    """Print ``message`` as one red line on standard error."""
    line = " ".join(message.split())
    Console(stderr=True, highlight=False).print(Text(f"eptsim: {line}", "red"), soft_wrap=True)


def show_note(message: str) -> None:
    """Print a line for people on standard error, so that standard output stays clean."""
    Console(stderr=True, highlight=False).print(Text(message), soft_wrap=True)


def table(*headers: str, title: str | None = None) -> Table:
    """Return an empty table in the style of every verb."""
    made = Table(title=title, title_justify="left", box=None, pad_edge=False, header_style="bold")
    for header in headers:
        made.add_column(header, overflow="fold")
    return made


def progress() -> Progress:
    """Return a progress display on standard error; it draws nothing where that is no terminal."""
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
