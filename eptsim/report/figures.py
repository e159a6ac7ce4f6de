"""Figures as SVG text for one page: colours from the page, so that they follow light and dark.

Series differ by marker and by line as well as by colour, so that they can be told apart in
greyscale. Nothing here touches pyplot or its global state.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import FixedFormatter, FixedLocator, FuncFormatter, NullLocator

STYLES: tuple[tuple[str, tuple[float, ...]], ...] = (
    ("o", ()),
    ("s", (5, 2)),
    ("^", (1.5, 1.5)),
    ("D", (6, 2, 1.5, 2)),
    ("v", (9, 3)),
    ("P", (3, 1.5)),
    ("X", (8, 2, 1.5, 2, 1.5, 2)),
    ("*", (2, 3)),
    ("<", (4, 4)),
    (">", (1, 3)),
)
"""Marker and dashes of each series, by its number; colours are the page's --s0, --s1, ..."""

_INK, _GRID = "#010203", "#010204"
_SERIES = tuple(f"#0102{16 + number:02x}" for number in range(len(STYLES)))
_SETTINGS: dict[Any, Any] = {
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 11.0,
    "axes.edgecolor": _INK,
    "axes.labelcolor": _INK,
    "axes.titlesize": 11.5,
    "text.color": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


@dataclass(frozen=True)
class Series:
    """One line of a figure.

    Attributes
    ----------
    label : str
    style : int
        Number of its marker, dashes and colour.
    x, y : sequence of float
        NaN in ``y`` where there is no value.
    low, high : sequence of float
        Spread around ``y``; empty for none.
    refused : sequence of float
        ``x`` where a measurement was refused: marked at the top of the figure.
    markers : bool
        Whether points are marked; a curve of many points has none.
    """

    label: str
    style: int
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    refused: Sequence[float] = ()
    markers: bool = True


@dataclass(frozen=True)
class Panel:
    """One figure: axes with their units, and what is drawn on them.

    ``zero_log_x``: a logarithmic axis that has a place for 0 on its left. ``levels``: at most two
    horizontal lines, each with its label.
    """

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    zero_log_x: bool = False
    log_y: bool = False
    whole_x: bool = False
    levels: tuple[tuple[float, str], ...] = field(default=())
    size_in: tuple[float, float] = (5.0, 3.5)


def draw(panel: Panel, name: str) -> str:
    """Return the panel as an ``<svg>`` element; ``name`` keeps its ids apart from other figures'.

    Infinite values are not drawn.
    """
    with mpl.rc_context({**_SETTINGS, "svg.hashsalt": name}):
        figure = Figure(figsize=panel.size_in, layout="constrained")
        axes: Axes = figure.add_subplot()
        place = _placer(panel)
        for series in panel.series:
            _draw_series(axes, series, place)
        _draw_levels(axes, panel)
        _dress(axes, panel, place)
        return _svg(figure, panel.title)


def key(style: int, name: str) -> str:
    """Return a small ``<svg>`` of a series' line and marker, for a legend; ``name`` as in draw."""
    with mpl.rc_context({**_SETTINGS, "svg.hashsalt": f"{name}-key{style}"}):
        figure = Figure(figsize=(0.6, 0.2))
        axes: Axes = figure.add_axes((0, 0, 1, 1))
        axes.set_axis_off()
        axes.set(xlim=(0, 2), ylim=(-1, 1))
        _line(axes, [0.05, 1, 1.95], [0, 0, 0], style, markevery=[1])
        return _svg(figure, "")


def _line(
    axes: Axes, x: Sequence[float], y: Sequence[float], style: int, markevery: list[int] | None
) -> None:
    marker, dashes = STYLES[style % len(STYLES)]
    colour = _SERIES[style % len(STYLES)]
    width = 1.2 if markevery == [] else 1.7
    line = axes.plot(
        x, y, color=colour, linewidth=width, marker=marker, markersize=5.5, markevery=markevery,
        markeredgecolor=colour, markerfacecolor=colour, clip_on=False,
    )[0]
    if dashes:
        line.set_dashes(dashes)


class _Place:
    """Where x values go: log10 with a gap for 0, or as they are."""

    def __init__(self, values: list[float], zero_log: bool) -> None:
        positive = [value for value in values if value > 0]
        self.zero_log = zero_log and bool(positive)
        self.values = sorted(set(values))
        self._zero = math.log10(min(positive)) - 0.6 if positive else 0.0

    def __call__(self, value: float) -> float:
        if not self.zero_log:
            return value
        return math.log10(value) if value > 0 else self._zero


def _placer(panel: Panel) -> _Place:
    values = [float(v) for series in panel.series for v in (*series.x, *series.refused)]
    return _Place(values, panel.zero_log_x)


def _draw_series(axes: Axes, series: Series, place: _Place) -> None:
    x = [place(float(value)) for value in series.x]
    y = [float(value) if math.isfinite(value) else math.nan for value in series.y]
    if series.low:
        axes.vlines(
            x, [float(v) for v in series.low], [float(v) for v in series.high],
            color=_SERIES[series.style % len(STYLES)], linewidth=1.1,
        )
    _line(axes, x, y, series.style, None if series.markers else [])
    if series.refused:
        axes.plot(
            [place(float(v)) for v in series.refused], [1.0] * len(series.refused), linestyle="",
            marker="x", markersize=9, markeredgewidth=2.0, clip_on=False,
            color=_SERIES[series.style % len(STYLES)], transform=axes.get_xaxis_transform(),
        )


def _draw_levels(axes: Axes, panel: Panel) -> None:
    """Horizontal lines with their labels on the right, outside the data.

    The upper label stands above its line and the lower one below, so that close lines keep their
    labels apart.
    """
    levels = sorted(panel.levels)
    for place, (value, label) in enumerate(levels):
        axes.axhline(value, color=_INK, linewidth=1.0, dashes=(1, 2) if place else (6, 2))
        axes.annotate(
            label, (1, value), xycoords=("axes fraction", "data"), xytext=(5, 0),
            textcoords="offset points", ha="left", va="bottom" if place else "top", fontsize=9.5,
        )


def _dress(axes: Axes, panel: Panel, place: _Place) -> None:
    """Labels, grid and ticks."""
    axes.set_title(panel.title, loc="left", pad=10)
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel(panel.y_label)
    axes.grid(visible=True, axis="y", color=_GRID, linewidth=0.7)
    axes.set_axisbelow(True)
    values = [value for series in panel.series for value in series.y]
    if panel.log_y and any(math.isfinite(value) and value > 0 for value in values):
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        low, high = axes.get_ylim()
        if high < 20 * low:  # less than a decade may hold no tick: make room for one on each side
            middle = math.sqrt(low * high)
            axes.set_ylim(min(low, middle / 5), max(high, middle * 5))
        axes.yaxis.set_minor_locator(NullLocator())
    if place.zero_log:
        shown = _spaced([place(value) for value in place.values], place.values)
        axes.xaxis.set_major_locator(FixedLocator([where for where, _ in shown]))
        axes.xaxis.set_major_formatter(FixedFormatter([f"{value:g}" for _, value in shown]))
    elif panel.whole_x:
        axes.xaxis.set_major_locator(FixedLocator(place.values))
        axes.xaxis.set_major_formatter(FixedFormatter([f"{value:g}" for value in place.values]))


def _spaced(places: list[float], values: list[float]) -> list[tuple[float, float]]:
    """Ticks that leave their labels room: those too near the one before are left out."""
    least = 0.11 * ((places[-1] - places[0]) or 1.0)
    kept: list[tuple[float, float]] = []
    for where, value in zip(places, values, strict=True):
        if not kept or where - kept[-1][0] >= least:
            kept.append((where, value))
    return kept


def _svg(figure: Figure, title: str) -> str:
    """The figure's ``<svg>`` element, with the page's colours in place of the stand-ins."""
    buffer = io.StringIO()
    figure.set_canvas(FigureCanvasSVG(figure))
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r' xmlns(:xlink)?="[^"]*"', "", text).replace("xlink:href", "href")
    # names of artists, the same in every figure; what is referred to has hashes for ids
    text = re.sub(r' id="[A-Za-z0-9.]+_\d+"', "", text)
    # the size is the page's to choose; the view box keeps the proportions
    role = f'role="img" aria-label="{_escaped(title)}"' if title else 'aria-hidden="true"'
    text = re.sub(r'<svg (.*?)width="[^"]*"', rf"<svg {role} \1", text, count=1, flags=re.DOTALL)
    text = re.sub(r'(<svg [^>]*?)height="[^"]*"', r"\1", text, count=1, flags=re.DOTALL)
    # the white sheet behind figure and axes
    text = text.replace("fill: #ffffff", "fill: none")
    text = text.replace(_INK, "var(--ink)").replace(_GRID, "var(--grid)")
    for number, colour in enumerate(_SERIES):
        text = text.replace(colour, f"var(--s{number})")
    return text.strip()


def _escaped(text: str) -> str:
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return text.replace('"', "&quot;")
