"""The demo's page: small, complete, and its words follow the numbers."""

import re
import shutil
import subprocess

import pytest

from eptsim.report.demo_page import demo_page, demo_sentences
from eptsim.report.html import render

HERE = {"transpose": 0.02, "forward": 0.02}


@pytest.fixture(scope="module")
def page(curves, training):
    return render(demo_page(training, curves, HERE))


def test_the_page_holds_all_figures_and_stays_small(page):
    assert page.count("<figure>") == 9
    assert len(page.encode()) < 5e6
    assert not re.search(r"https?://|src=|url\((?!#)", page)
    assert "some&lt;card&gt;" in page and "some<card>" not in page
    assert "not &lt;settled&gt;" in page
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(ids) == len(set(ids))


def test_sentences_begin_with_the_model(curves, training):
    said = demo_sentences(training, curves, HERE)
    assert "1,234,567 parameters" in said[0] and "better than token" in said[0]
    assert "2.500" in said[1] and "2.400" in said[1]
    worse = training.assign(validation_after=6.0)
    assert "no better" in demo_sentences(worse, curves, HERE)[0]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("chromium") is None, reason="chromium is not installed")
@pytest.mark.parametrize("width", [500, 800, 1400])
def test_nothing_is_wider_than_the_window(page, tmp_path, width):
    script = (
        "<script>document.title = 'wide ' + (document.documentElement.scrollWidth -"
        " document.documentElement.clientWidth)</script></body>"
    )
    file = tmp_path / "page.html"
    file.write_text(page.replace("</body>", script), encoding="utf-8")
    shown = subprocess.run(
        ["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--window-size={width},900",
         "--dump-dom", file.as_uri()],
        capture_output=True, text=True, timeout=120, check=True,
    ).stdout
    assert "<title>wide 0</title>" in shown
