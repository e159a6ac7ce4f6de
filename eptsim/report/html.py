"""One self-contained page: text, figures and tables in one HTML file that needs no network."""

from __future__ import annotations

import os
import uuid
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined

from eptsim.base.errors import ResultsError


@dataclass(frozen=True)
class Figure:
    """An ``<svg>`` element with the caption below it."""

    svg: str
    caption: str


@dataclass(frozen=True)
class Table:
    """Rows of text. ``text_columns``: how many of the first columns are words, not numbers."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    text_columns: int = 1
    caption: str = ""


@dataclass(frozen=True)
class Section:
    """A part of the page; ``legend`` holds (``<svg>`` key, label) of the figures' series."""

    title: str
    paragraphs: tuple[str, ...] = ()
    legend: tuple[tuple[str, str], ...] = ()
    figures: tuple[Figure, ...] = ()
    tables: tuple[Table, ...] = ()


@dataclass(frozen=True)
class Page:
    """A report: what it says first, its sections, and the settings it was made with."""

    title: str
    summary: tuple[str, ...]
    sections: tuple[Section, ...]
    settings: tuple[tuple[str, str], ...] = field(default=())


def render(page: Page) -> str:
    """Return the page as HTML; all text is escaped, only the figures are taken as markup."""
    return _environment().get_template("page.html.j2").render(page=page)


def write_page(path: str | os.PathLike[str], page: Page) -> Path:
    """Write the page to ``path``, whole or not at all, and return it.

    Raises
    ------
    ResultsError
        The file cannot be written.
    """
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex}.tmp")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(render(page), encoding="utf-8")
        temporary.replace(target)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise ResultsError(
            f"{target}: cannot be written ({error.strerror or error}), allowed: a folder that can"
            " be written to."
        ) from error
    return target


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("eptsim.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
