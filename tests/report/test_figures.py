"""Figures: valid SVG without the outside world, colours from the page, styles apart."""

import math
import re
import xml.etree.ElementTree as ElementTree

import matplotlib as mpl
import pytest

from eptsim.report.figures import STYLES, Panel, Series, draw, key

LINE = Series("a & b", 0, (0.0, 0.01, 0.1), (1.0, 0.9, math.nan), (0.9, 0.8, math.nan),
              (1.0, 1.0, math.nan), refused=(0.1,))
PANEL = Panel("title <1>", "x (V)", "y (1)", (LINE,), zero_log_x=True)


def texts(svg):
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg)


def test_is_well_formed_and_self_contained():
    svg = draw(PANEL, "one")
    root = ElementTree.fromstring(svg)
    assert root.get("aria-label") == "title <1>"
    assert root.get("viewBox") and root.get("width") is None and root.get("height") is None
    assert "http" not in svg and "<metadata" not in svg


def test_colours_are_the_pages():
    svg = draw(PANEL, "one")
    assert "var(--ink)" in svg and "var(--s0)" in svg and "var(--grid)" in svg
    assert not re.findall(r"#[0-9a-f]{6}", svg.replace("#ffffff", ""))


def test_axes_are_labelled_and_zero_has_a_place():
    shown = texts(draw(PANEL, "one"))
    assert {"x (V)", "y (1)", "title &lt;1&gt;", "0", "0.01", "0.1"} <= set(shown)


def test_the_same_panel_is_the_same_text_and_names_keep_ids_apart():
    assert draw(PANEL, "one") == draw(PANEL, "one")
    ids = [set(re.findall(r'id="(m[0-9a-f]+|p[0-9a-f]+)"', draw(PANEL, n))) for n in "ab"]
    assert ids[0] and not ids[0] & ids[1]


def test_styles_differ_without_colour():
    assert len(set(STYLES)) == len(STYLES)
    assert len({marker for marker, _ in STYLES}) == len(STYLES)
    assert len({key(number, "k") for number in range(len(STYLES))}) == len(STYLES)


@pytest.mark.parametrize("log", [True, False])
def test_draws_what_has_no_numbers(log):
    empty = Series("none", 1, (0.0, 0.1), (math.nan, math.nan), refused=(0.0, 0.1))
    ElementTree.fromstring(draw(Panel("t", "x", "y", (empty,), True, log), "e"))
    ElementTree.fromstring(draw(Panel("t", "x", "y", (), True, log), "n"))
    wild = Series("wild", 1, (0.0, 0.1), (math.inf, 1.0))
    ElementTree.fromstring(draw(Panel("t", "x", "y", (wild,), True, log), "w"))


def test_leaves_matplotlib_as_it_was():
    before = dict(mpl.rcParams)
    draw(PANEL, "one")
    assert dict(mpl.rcParams) == before
