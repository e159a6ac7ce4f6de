"""The page: escaped, self-contained, written whole."""

import pytest

from eptsim.base.errors import ResultsError
from eptsim.report.html import Figure, Page, Section, Table, render, write_page

PAGE = Page(
    "A <title>", ("One & two.",),
    (Section("Part", ("Text <b>.",), (("<svg></svg>", "label <i>"),),
             (Figure("<svg id='x'></svg>", "caption"),),
             (Table(("name", "value"), (("a<b", "1"),), 1, "note"),)),),
    (("key", "value"),),
)


def test_text_is_escaped_and_figures_are_not():
    page = render(PAGE)
    for words in ("A &lt;title&gt;", "One &amp; two.", "a&lt;b", "label &lt;i&gt;",
                  "Text &lt;b&gt;", "<svg id='x'>", "caption", "note", "key"):
        assert words in page


def test_needs_no_network_and_fits_a_phone():
    page = render(PAGE)
    assert "http" not in page and "src=" not in page and "@import" not in page
    assert 'name="viewport"' in page and "prefers-color-scheme: dark" in page


def test_is_written_whole_or_not_at_all(tmp_path):
    path = write_page(tmp_path / "new" / "report.html", PAGE)
    assert path.read_text(encoding="utf-8") == render(PAGE)
    assert [p.name for p in path.parent.iterdir()] == ["report.html"]
    (tmp_path / "file").write_text("x")
    with pytest.raises(ResultsError, match="cannot be written"):
        write_page(tmp_path / "file" / "report.html", PAGE)
