"""Sentences follow from the numbers: other numbers, other words."""

import math

import pytest

from eptsim.report.verdicts import cancelled, cosine, find, number, offset_sentences

HERE = {"transpose": 0.02, "node": 0.02, "forward": 0.02}


def test_numbers_are_short():
    assert [number(v) for v in (0.3, 2.91, 1234.5, 1e-5, 0.0, math.nan, math.inf)] == [
        "0.30", "2.91", "1,234", "1.0e-05", "0.00", "–", "–"
    ]
    assert [cosine(v) for v in (0.923, 0.99997, -0.001, math.nan, 1.0)] == [
        "0.92", "0.99997", "0.00", "–", "1.000000"
    ]


def test_cancelled_is_against_one_sided_without_reference(curves):
    def part(reference, entry="transpose", measurement="one_sided"):
        found = find(curves, entry, measurement, reference)
        return cancelled(found, curves, 0.02)

    assert part("line") == pytest.approx(0.99)
    assert part("node") == pytest.approx(0.5)
    assert part("weight") == pytest.approx(-1)
    assert part("none", measurement="centred") == pytest.approx(0.99)
    assert part("line", "forward") == pytest.approx(0)
    assert math.isnan(part("none"))


def test_sentences_say_what_was_bought_and_what_was_not(curves):
    floor, transpose, ranges, centred, coding, forward, refused = offset_sentences(curves, HERE)
    assert "cosine of 0.94 to 0.95" in floor and "lost" not in floor
    assert "0.94 to 0.20" in transpose
    assert "practically all" in transpose and "99.0 % at each converter line" in transpose
    assert "none (2 times worse)" in transpose
    assert "weight reference" in ranges
    assert "0.95" in centred
    assert "in full" in coding
    assert "hardly anything" in forward and "still hides the gradient" in forward
    assert "1 of 54" in refused


def test_only_measured_places_are_mentioned(curves):
    said = " ".join(offset_sentences(curves, {"node": 0.02}))
    assert "State nodes" not in said and "Transpose" not in said
