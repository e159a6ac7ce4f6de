import pytest

from eptsim.base.errors import CardError
from eptsim.base.table import Table
from eptsim.cards import load_card
from eptsim.cards.importers.draft import Draft

HEADER = ("mine", "My card", "Made in a test.", "none")


def draft() -> Draft:
    return Draft({"a.bits": 8, "a.noise": 0.5, "b": True, "c": 0}, "aihwkit", "Config")


def test_every_setting_ends_somewhere():
    made = draft()
    made.carry("forward.adc_bits", 8, "a.bits", why="as it is")
    made.leave("b", "no entry")
    made.done("c")
    with pytest.raises(AssertionError, match=r"nobody has dealt with a\.noise"):
        made.finish(*HEADER)
    made.leave_rest(lambda name, value: False, lambda name: "the rest")
    found = made.finish(*HEADER)
    assert [(item.field, item.value, item.why) for item in found.left_out] == [
        ("a.noise", "0.5", "the rest"), ("b", "True", "no entry"),
    ]
    entry = next(view for view in found.card.entries() if view.key == "forward.adc_bits")
    assert (entry.value, entry.kind, entry.source, entry.where, entry.why) == (
        8, "assumed", "aihwkit", "Config: a.bits", "as it is",
    )


def test_the_text_is_the_card_and_holds_only_what_is_set(tmp_path):
    made = draft()
    table = Table.of([0.0, 1e-5], [1e-8, 3e-8])
    made.carry("cell.programming.table", table, "a.noise")
    made.carry("array.mapping", "offset", "b")
    made.done("a.bits", "c")
    found = made.finish(*HEADER)
    path = tmp_path / "mine.toml"
    path.write_text(found.text)
    assert load_card(path) == found.card
    assert found.card.cell.programming.table == table
    assert "default" not in found.text and "[forward]" not in found.text
    assert found.left_out == () and "#" not in found.text


def test_what_is_left_out_stands_in_the_text(tmp_path):
    made = draft()
    made.leave("a.noise", "why not")
    made.done_below("a", "b")
    made.done("c")
    text = made.finish(*HEADER).text
    assert text.endswith("# Not carried, or not exactly:\n# a.noise = 0.5: why not\n")
    (tmp_path / "x.toml").write_text(text)
    assert load_card(tmp_path / "x.toml") == load_card("ideal")


def test_a_value_that_no_card_may_have_names_the_source():
    with pytest.raises(CardError, match=r"import of Config: forward\.adc_bits: found 99"):
        draft().carry("forward.adc_bits", 99, "a.bits")


def test_numbers():
    made = draft()
    assert made.number("a.bits") == 8.0 and made.number("nothing") == 0.0
    assert made.get("nothing") is None and made.names() == ("a.bits", "a.noise", "b", "c")
    with pytest.raises(CardError, match="Config: b: found True, allowed: a number"):
        made.number("b")
