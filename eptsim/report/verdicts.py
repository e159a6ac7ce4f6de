"""What an offset study says, in sentences whose words and numbers follow from the numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from eptsim.report.curves import Curve

USELESS_COSINE = 0.5
"""Median cosine to backpropagation below which a measurement without any offset counts as lost."""

REFERENCE_WORDS = {
    "weight": "as a difference of outer products (weight)",
    "node": "at the state node (node)",
    "line": "at each converter line (line)",
    "line+weight": "at the lines and as outer products (line+weight)",
}
_CAUSES = {
    "transpose": "Transpose read: an offset of {} of full scale on its lines",
    "node": "State nodes: a constant force of {} of the state's root mean square",
    "forward": "Forward read: an offset of {} of full scale on its lines",
}


def number(value: float) -> str:
    """Three digits; "–" for no value."""
    if not math.isfinite(value):
        return "–"
    if value != 0 and abs(value) < 0.01:
        return f"{value:.1e}"
    if abs(value) < 100:
        return f"{value:.3g}" if abs(value) >= 1 else f"{value:.2f}"
    return f"{value:,.0f}"


def cosine(value: float) -> str:
    """A cosine: two decimals, more of them close to 1."""
    if not math.isfinite(value):
        return "–"
    digits = 2 if value < 0.99 else min(6, -math.floor(math.log10(max(1 - value, 1e-6))))
    text = f"{value:.{digits}f}"
    return text if float(text) else text.removeprefix("-")


def cancelled(curve: Curve, curves: Iterable[Curve], amplitude: float) -> float:
    """Part of the offset's effect that a method does not see, against one-sided EP as it is.

    The effect is how far the gradient moves from that of the same chip without offsets; one-sided
    EP without a reference, at a held range, has all of it. 1: none of it is left; negative: the
    method makes it worse; NaN: nothing to compare with, or a method that is lost anyway.
    """
    bare = find(curves, curve.entry, "one_sided", "none")
    if bare is None or curve is bare or amplitude not in bare.amplitudes:
        return math.nan
    if curve.at("cosine", 0.0) < USELESS_COSINE:
        return math.nan
    own, without = (c.at("offset_free_error", amplitude) for c in (curve, bare))
    return 1 - own / without if without > 0 else math.nan


def find(
    curves: Iterable[Curve], entry: str, measurement: str, reference: str, policy: str = "held"
) -> Curve | None:
    """The curve of one method at one place, if it was measured."""
    for curve in curves:
        asked = (entry, measurement, reference, policy)
        if (curve.entry, curve.measurement, curve.reference, curve.range_policy) == asked:
            return curve
    return None


def offset_sentences(curves: Sequence[Curve], amplitudes: dict[str, float]) -> tuple[str, ...]:
    """What the reference bought and what it cannot cancel; ``amplitudes``: which one per place."""
    said = [_floor(curves)]
    for entry, amplitude in amplitudes.items():
        here = [c for c in curves if c.entry == entry and amplitude in c.amplitudes]
        if here:
            said += _place(entry, here, amplitude)
    said.append(_refusals(curves))
    return tuple(sentence for sentence in said if sentence)


def _floor(curves: Sequence[Curve]) -> str:
    """What the card's other flaws leave, at amplitude 0."""
    found = {c.label: c.at("cosine", 0.0) for c in curves}
    good = {k: v for k, v in found.items() if v >= USELESS_COSINE}
    lost = [k for k in found if k not in good]
    if not good:
        return "Even without any offset no measurement points along the gradient on this card."
    low, high = min(good.values()), max(good.values())
    span = cosine(high) if cosine(low) == cosine(high) else f"{cosine(low)} to {cosine(high)}"
    errors = [c.at("relative_error", 0.0) for c in curves if c.label in good]
    text = (
        f"Floor: with every offset at 0, the other flaws of the card leave a cosine of {span} to"
        f" backpropagation (relative error {number(min(errors))} to {number(max(errors))})."
    )
    if lost:
        text += (
            f" Already there {' and '.join(lost)} {'is' if len(lost) == 1 else 'are'} lost (cosine"
            f" {' and '.join(cosine(found[name]) for name in lost)})."
        )
    return text


def _place(entry: str, curves: Sequence[Curve], amplitude: float) -> list[str]:
    bare = find(curves, entry, "one_sided", "none")
    if bare is None:
        return []
    start, end = bare.at("cosine", 0.0), bare.at("cosine", amplitude)
    said = (
        f"{_CAUSES[entry].format(f'{amplitude:g}')} takes one-sided EP without a reference from"
        f" cosine {cosine(start)} to {cosine(end)} (relative error"
        f" {number(bare.at('relative_error', 0.0))} to"
        f" {number(bare.at('relative_error', amplitude))})."
    )
    rest = [c for c in curves if c.measurement == "one_sided" and c.range_policy == "held"]
    parts = [(c, cancelled(c, curves, amplitude)) for c in rest if c.reference != "none"]
    parts = [(c, part) for c, part in parts if math.isfinite(part)]
    if parts:
        said += " " + _bought(parts, amplitude)
    return [said, *_range_words(entry, curves, amplitude), *_others(entry, curves, amplitude)]


def _bought(parts: list[tuple[Curve, float]], amplitude: float) -> str:
    """What each reference removes of the offset's effect, best first."""
    parts = sorted(parts, key=lambda pair: -pair[1])
    best = parts[0][1]
    verdict = (
        "practically all" if best >= 0.99
        else "most" if best >= 0.8
        else "a part" if best >= 0.3
        else "hardly anything"
    )
    listed = "; ".join(
        f"{_share(part)} {REFERENCE_WORDS.get(c.reference, c.reference)}, cosine"
        f" {cosine(c.at('cosine', amplitude))}"
        for c, part in parts
    )
    said = f"Subtracting the free phase cancels {verdict} of that shift: {listed}."
    left = max(c.at("cosine", amplitude) for c, _ in parts)
    floor = max(c.at("cosine", 0.0) for c, _ in parts)
    if left < USELESS_COSINE <= floor:
        said += " What is left still hides the gradient."
    return said


def _share(part: float) -> str:
    if part < -0.05:
        return f"none ({number(1 - part)} times worse)"
    if part < 0.005:
        return "none"
    percent = 100 * part
    return f"{percent:.0f} %" if percent < 99 else f"{min(percent, 99.9):.1f} %"


def _range_words(entry: str, curves: Sequence[Curve], amplitude: float) -> list[str]:
    """The same reference under another range policy, where both were measured."""
    said = []
    for other in curves:
        if other.range_policy == "held":
            continue
        held = find(curves, entry, other.measurement, other.reference)
        if held is None:
            continue
        a, b = held.at("cosine", amplitude), other.at("cosine", amplitude)
        agree = "plays no part" if abs(a - b) < 0.02 else "matters"
        said.append(
            f"The range {agree}: the {other.reference} reference gives cosine {cosine(a)} where"
            f" both phases read at a held range, {cosine(b)} with {_policy(other)}."
        )
    return said


def _policy(curve: Curve) -> str:
    return "each vector at its own" if curve.range_policy == "per_vector" else "a fixed one"


def _others(entry: str, curves: Sequence[Curve], amplitude: float) -> list[str]:
    """Centred EP and predictive coding at the same amplitude, in one sentence each."""
    said = []
    centred = [c for c in curves if c.measurement == "centred" and c.range_policy == "held"]
    if centred:
        listed = ", ".join(
            f"{cosine(c.at('cosine', amplitude))} with"
            f" {'no further' if c.reference == 'none' else f'the {c.reference}'} reference"
            for c in centred
        )
        said.append(f"Centred EP, whose two nudges are each other's zero: cosine {listed}.")
    coding = find(curves, entry, "predictive_coding", "none")
    if coding is not None:
        start, end = coding.at("cosine", 0.0), coding.at("cosine", amplitude)
        effect = coding.at("offset_free_error", amplitude)
        words = "in full" if effect > 0.5 else "in part" if effect > 0.1 else "hardly"
        said.append(
            f"Predictive coding settles one phase and has no zero to subtract: this offset reaches"
            f" it {words} (cosine {cosine(start)} without it, {cosine(end)} with it)."
        )
    return said


def _refusals(curves: Sequence[Curve]) -> str:
    total = sum(int(np.size(c.data["outcome"].values)) for c in curves)
    refused = int(sum(c.refused.sum() for c in curves))
    if refused == 0:
        return f"All {total} measurements settled; none was refused."
    return (
        f"Refused because a phase did not settle: {refused} of {total} measurements, marked × and"
        " in no average."
    )
