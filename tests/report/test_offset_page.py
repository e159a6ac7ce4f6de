"""Tables and sections of an offset study."""

from eptsim.report.offset_page import HEADER, refusal_table, result_table, sections, styles

HERE = {"transpose": 0.02, "forward": 0.02}


def test_the_table_has_a_row_per_method_and_counts_refusals(curves):
    table = result_table(curves, HERE)
    assert table.header == HEADER
    assert len(table.rows) == 9
    assert table.rows[1][-2:] == ("worse", "1 of 2")
    assert table.rows[3][2] == "line" and table.rows[3][-2] == "99 %"
    assert "2 chips" in table.caption


def test_refusals_are_listed_with_their_reason(curves):
    table = refusal_table(curves)
    assert table is not None
    assert table.rows == (
        ("transpose read", "EP one-sided, weight reference", "0.02", "nudged phase: not <settled>"),
    )
    quiet = [curve for curve in curves if not curve.refused.any()]
    assert refusal_table(quiet) is None
    assert "refused" not in result_table(quiet, HERE).header


def test_sections_per_place_with_the_same_styles(curves):
    made = sections(curves, HERE)
    assert [len(section.figures) for section in made] == [3, 2, 3]
    assert "refused" in made[0].paragraphs[0] and "refused" not in made[2].paragraphs[0]
    assert len(set(styles(curves).values())) == 7
    labels = [[label for _, label in section.legend] for section in made]
    assert set(labels[2]) <= set(labels[0]) == set(labels[1])
