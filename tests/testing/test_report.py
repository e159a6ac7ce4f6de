from eptsim.testing.check import Check, count
from eptsim.testing.report import Report, Row, markdown_table


def row(name, status, detail="x: 1, allowed: at most 2"):
    check = Check("topic", name, f"Claim {name}.", "truth", lambda bench: [count("x", False)])
    return Row(check, status, detail, 0.1)


PASSED, FAILED = row("a", "passed"), row("b", "failed", "x: 3, allowed: at most 2\ny: 2")
REFUSED, ERROR = row("c", "refused", "no levels"), row("d", "error", "Traceback\n  ...\nOops: 1")


def test_what_passes():
    assert Report((PASSED, REFUSED)).passed
    assert not Report((PASSED, FAILED)).passed
    assert not Report((PASSED, ERROR)).passed
    assert not Report((REFUSED,)).passed  # nothing was shown
    assert not Report(()).passed


def test_counts_and_selection():
    report = Report((PASSED, FAILED, REFUSED, ERROR))
    assert report.counts() == {"passed": 1, "failed": 1, "refused": 1, "error": 1}
    assert report.of("failed") == (FAILED,)


def test_the_plain_table_says_why():
    text = str(Report((PASSED, FAILED, REFUSED, ERROR)))
    assert "topic/b  failed   x: 3, allowed: at most 2" in text
    assert "topic/d  error    Oops: 1" in text
    assert text.endswith("1 passed, 1 failed, 1 refused, 1 error")


def test_the_markdown_table_has_a_column_each_and_the_reasons():
    table = markdown_table({"ours": Report((PASSED, REFUSED)), "theirs": Report((FAILED, ERROR))})
    assert "| check | claim | compared with | ours | theirs |" in table
    assert "| `topic/a` | Claim a. | truth | passed | - |" in table
    assert "| **failed** |  |  | 0 | 1 |" in table
    assert "- `topic/d` on theirs, error: Oops: 1" in table
    assert Report((PASSED,)).markdown("ours").startswith("| check | claim |")
