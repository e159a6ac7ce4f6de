"""The bibliography reader: what it takes, and a line number for what it does not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eptsim.base.errors import CardError
from eptsim.cards.bibliography import parse_bibliography

GOOD = """A comment.

@Article{one2020a,
  Author = {{A Group} and B{\\"o}b, C.},
  title  = "Some
            {Title}, with commas",
  year   = 2020,
}
More comment.
@misc{two, author={A}, title={}, year={2021} }
"""


def test_reads_entries_and_fields() -> None:
    sources = parse_bibliography(GOOD, "x.bib")
    assert list(sources) == ["one2020a", "two"]
    assert sources["one2020a"].kind == "article"
    assert sources["one2020a"].fields == {
        "author": 'A Group and B\\"ob, C.',
        "title": "Some Title, with commas",
        "year": "2020",
    }


def test_empty_text_has_no_sources() -> None:
    assert parse_bibliography("", "x.bib") == {}
    assert parse_bibliography("only words\n", "x.bib") == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("\n@misc{", r"x\.bib: line 2: no '@kind\{key,' here"),
        ("@misc{a b,}", "no '@kind"),
        ("@{a,}", "no '@kind"),
        (GOOD + GOOD, "line 13: source 'one2020a' is there twice"),
        ("@misc{a, title={x}, year=1}", "source 'a' lacks author"),
        ("@misc{a, }", "source 'a' lacks author, title, year"),
        ("@misc{a, title={x}, title={y}}", "field 'title' is there twice"),
        ("@misc{a,\n title={x} year=1}", "line 2: expected ',' or '}' after field 'title'"),
        ("@misc{a,\n title={x", "line 2: a text that begins here does not end"),
        ('@misc{a, title="x}', "does not end"),
        ('@misc{a, title="{x"}', "does not end"),
        ("@misc{a, title=x}", r"expected \{text\}, \"text\" or a number"),
        ("@misc{a, title=", "expected"),
        ("@misc{a, title}", "expected 'field = "),
        ("@misc{a,", "expected 'field = "),
    ],
)
def test_refused_with_the_line(text: str, message: str) -> None:
    with pytest.raises(CardError, match=message):
        parse_bibliography(text, "x.bib")


@given(st.one_of(st.text(), st.text(alphabet='@misc{a,}="\n 1')))
def test_only_card_errors_come_out(text: str) -> None:
    for body in (text, f"@misc{{a,{text}"):
        try:
            parse_bibliography(body, "x.bib")
        except CardError as error:
            assert str(error).startswith("x.bib: line ")
