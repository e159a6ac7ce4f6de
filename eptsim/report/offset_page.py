"""Figures and tables of an offset study."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from eptsim.report.curves import Curve
from eptsim.report.figures import Panel, Series, draw, key
from eptsim.report.html import Figure, Section, Table
from eptsim.report.verdicts import cancelled, cosine, number

X_LABELS = {
    "transpose": "transpose offset (fraction of full scale, s.d.)",
    "node": "node offset (fraction of the state's rms, s.d.)",
    "forward": "forward offset (fraction of full scale, s.d.)",
}
TITLES = {
    "transpose": "An offset in the transpose read",
    "node": "A constant force on the state nodes",
    "forward": "An offset in the forward read",
}
HEADER = (
    "offset in", "measurement", "reference", "range", "amplitude", "cosine at 0", "cosine",
    "error at 0", "error", "cancelled", "refused",
)
NOTE = (
    "Cosine and relative error are to backpropagation on the digital model. “At 0”: the same chip"
    " with every offset at 0. Cancelled: how much of the shift away from that chip, as one-sided EP"
    " without a reference sees it, is gone. Medians over {seeds} chips (chip seeds)."
)


def styles(curves: Sequence[Curve]) -> dict[str, int]:
    """Style number of each method, the same in every figure of a page."""
    return {label: place for place, label in enumerate(dict.fromkeys(c.label for c in curves))}


def table_rows(
    curves: Sequence[Curve], amplitudes: Mapping[str, float]
) -> tuple[tuple[str, ...], ...]:
    """One row per place and method, at the amplitude given for the place."""
    rows = []
    for curve in curves:
        amplitude = amplitudes.get(curve.entry, -1.0)
        if amplitude not in curve.amplitudes:
            continue
        part = cancelled(curve, curves, amplitude)
        refused = int(curve.refused[curve.amplitudes.index(amplitude)])
        rows.append((
            curve.place, curve.measurement_words, curve.reference,
            curve.range_policy.replace("_", " "), f"{amplitude:g}",
            cosine(curve.at("cosine", 0.0)), cosine(curve.at("cosine", amplitude)),
            number(curve.at("relative_error", 0.0)),
            number(curve.at("relative_error", amplitude)),
            "–" if np.isnan(part) else "worse" if part < -0.05 else f"{100 * max(part, 0):.0f} %",
            f"{refused} of {curve.seeds}" if refused else "0",
        ))
    return tuple(rows)


def result_table(curves: Sequence[Curve], amplitudes: Mapping[str, float]) -> Table:
    """The summary table for the page."""
    seeds = max(curve.seeds for curve in curves)
    rows = table_rows(curves, amplitudes)
    shown = len(HEADER) if any(row[-1] != "0" for row in rows) else len(HEADER) - 1
    cut = tuple(row[:shown] for row in rows)
    return Table(HEADER[:shown], cut, 4, NOTE.format(seeds=seeds))


def refusal_table(curves: Sequence[Curve]) -> Table | None:
    """Every refused measurement with its reason; None where there is none."""
    rows = []
    for curve in curves:
        outcomes = np.asarray(curve.data["outcome"].values)
        reasons = np.asarray(curve.data["reason"].values)
        for seed, place in zip(*np.nonzero(outcomes == "refused"), strict=True):
            amplitude = f"{curve.amplitudes[place]:g}"
            rows.append((curve.place, curve.label, amplitude, str(reasons[seed, place])))
    if not rows:
        return None
    header = ("offset in", "method", "amplitude", "why there is no gradient")
    return Table(header, tuple(rows), 4, "Refused measurements: they enter no number.")


def sections(curves: Sequence[Curve], amplitudes: Mapping[str, float]) -> tuple[Section, ...]:
    """A section per place, and one by block."""
    style = styles(curves)
    made = []
    for entry in dict.fromkeys(curve.entry for curve in curves):
        here = [curve for curve in curves if curve.entry == entry]
        marks = "Points: median over the chips; bars: smallest to largest."
        if any(curve.refused.any() for curve in here):
            marks += " × at the top: a measurement was refused, see the table."
        made.append(
            Section(
                TITLES[entry], (marks,), _legend(here, style, entry), _figures(entry, here, style)
            )
        )
        if entry == "transpose" and amplitudes.get(entry) in here[0].amplitudes:
            made.append(_by_block(here, amplitudes[entry], style))
    return tuple(made)


def _legend(
    curves: Sequence[Curve], style: Mapping[str, int], name: str
) -> tuple[tuple[str, str], ...]:
    return tuple((key(style[curve.label], name), curve.label) for curve in curves)


def _figures(
    entry: str, curves: Sequence[Curve], style: Mapping[str, int]
) -> tuple[Figure, ...]:
    panels = (
        ("cosine", "Direction of the gradient", "cosine to backprop (1 is exact)", False,
         "Cosine of all arrays' gradient g to backpropagation g₀ on the digital model."),
        ("relative_error", "Size of the error", "relative error |g − g₀| / |g₀|", True,
         "Distance to the same backpropagation; at 0, what the card's other flaws leave."),
        ("offset_free_error", "Shift that the offset alone makes",
         "|g − g(no offset)| / |g(no offset)|", True,
         "Distance to the same chip, same noise, with no offset at all."),
    )
    made = []
    for name, title, label, log, caption in panels:
        panel = Panel(
            title, X_LABELS[entry], label, tuple(_series(c, name, style) for c in curves),
            zero_log_x=True, log_y=log,
        )
        made.append(Figure(draw(panel, f"{entry}-{name}"), caption))
    return tuple(made)


def _series(curve: Curve, name: str, style: Mapping[str, int]) -> Series:
    low, high = curve.spread(name)
    middle = curve.middle(name)
    if name == "offset_free_error":  # 0 at no offset, which a logarithmic axis cannot show
        middle, low, high = (np.where(v > 0, v, np.nan) for v in (middle, low, high))
    refused = [a for a, n in zip(curve.amplitudes, curve.refused, strict=True) if n > 0]
    return Series(
        curve.label, style[curve.label], curve.amplitudes, tuple(middle), tuple(low), tuple(high),
        tuple(refused),
    )


def _by_block(
    curves: Sequence[Curve], amplitude: float, style: Mapping[str, int]
) -> Section:
    made = []
    for name, title, label, log in (
        ("block_cosine", "Direction, by block", "cosine to backprop (1 is exact)", False),
        ("block_relative_error", "Error, by block", "relative error |g − g₀| / |g₀|", True),
    ):
        series = []
        for curve in curves:
            place = curve.amplitudes.index(amplitude)
            low, high = (part[place] for part in curve.spread(name))
            blocks = tuple(float(b) for b in curve.data["block"].values)
            series.append(Series(
                curve.label, style[curve.label], blocks, tuple(curve.middle(name)[place]),
                tuple(low), tuple(high),
            ))
        x_label = "block, from the bottom (1) to the top"
        panel = Panel(title, x_label, label, tuple(series), log_y=log, whole_x=True)
        caption = f"At an offset of {amplitude:g} of full scale in the transpose read."
        made.append(Figure(draw(panel, f"by-{name}"), caption))
    return Section("The same, block by block", (), _legend(curves, style, "by"), tuple(made))
