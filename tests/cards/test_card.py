"""The Card: typed access, overrides, text, hash, equality, pickling; only CardErrors come out."""

from __future__ import annotations

import dataclasses
import pickle
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eptsim.base.errors import CardError
from eptsim.base.table import Table
from eptsim.cards import Card, list_cards, load_card
from eptsim.cards.loader import parse_card, shipped_sources
from eptsim.cards.schema import SCHEMA, Entry
from eptsim.cards.spec import Value

HARSH = load_card("harsh")
IDEAL = load_card("ideal")


def test_attributes_are_plain_numbers_in_si() -> None:
    assert (HARSH.name, HARSH.title) == ("harsh", "Harsh teaching chip")
    assert HARSH.cell.g_max_s == 20e-6
    assert HARSH.cell.programming.sigma == 0.03
    assert HARSH.cell.read_noise.law == "proportional"
    assert HARSH.cell.drift.time_s == 3600.0
    assert HARSH.cell.stuck.low == 0.002
    assert (HARSH.array.rows, HARSH.array.mapping) == (256, "differential")
    assert HARSH.node.offset == 1e-3
    assert (HARSH.forward.dac_bits, HARSH.transpose.adc_bits) == (8, 9)
    assert type(HARSH.forward.dac_bits) is int
    assert type(HARSH.forward.output_range) is float
    assert IDEAL.forward.offset == 0.0
    assert IDEAL.forward.input_range is None


def test_direction_by_name() -> None:
    card = HARSH.override({"transpose.offset": 0.1})
    assert card.direction("forward") is card.forward
    assert card.direction("transpose") is card.transpose
    with pytest.raises(CardError, match=r"found 'transposed'.*Did you mean 'transpose'"):
        card.direction("transposed")


def test_get_agrees_with_the_attributes() -> None:
    assert HARSH.keys() == tuple(SCHEMA)
    assert HARSH.get("cell.read_noise.law") == "proportional"
    for entry in HARSH.entries():
        assert HARSH.get(entry.key) == entry.value
    with pytest.raises(CardError, match=r"Did you mean 'transpose\.offset'"):
        HARSH.get("transpose.ofset")


def test_override_makes_a_new_card() -> None:
    card = HARSH.override({"transpose.offset": 0.5, "cell.levels": None, "array.rows": 64})
    assert (card.transpose.offset, card.cell.levels, card.array.rows) == (0.5, None, 64)
    assert (HARSH.transpose.offset, HARSH.cell.levels, HARSH.array.rows) == (0.02, 64, 256)
    assert card.forward == HARSH.forward
    assert HARSH.override({"transpose.offset": None}).transpose.offset == 0.0
    assert "transpose.offset" in repr(card)


def test_override_is_all_or_nothing_whatever_the_order() -> None:
    both: dict[str, object] = {"cell.g_min_s": 3e-5, "cell.g_max_s": 4e-5}
    assert IDEAL.override(both) == IDEAL.override(dict(reversed(both.items())))


def test_override_refuses() -> None:
    with pytest.raises(CardError, match=r"override of card 'harsh': transpose\.ofset: no such"):
        HARSH.override({"transpose.ofset": 0.1})
    with pytest.raises(CardError, match=r"harsh'.*forward\.adc_bits: found 0, .*None"):
        HARSH.override({"forward.adc_bits": 0})
    with pytest.raises(CardError, match="found list, allowed: a mapping"):
        HARSH.override(cast("dict[str, object]", []))


def test_entries_mark_overrides_and_defaults() -> None:
    card = load_card("pcm_mushroom").override({"forward.dac_bits": 6})
    views = {view.key: view for view in card.entries()}
    assert tuple(views) == tuple(SCHEMA)
    assert (views["forward.dac_bits"].kind, views["forward.dac_bits"].source) == ("override", "")
    assert (views["cell.stuck.low"].kind, views["cell.stuck.low"].unit) == ("default", "1")
    g_max = views["cell.g_max_s"]
    assert (g_max.value, g_max.unit, g_max.kind, g_max.source) == (
        20.7e-6,
        "S",
        "measured",
        "aihwkit",
    )
    assert "hermes.py" in g_max.where


def test_equality_and_hash_are_of_the_values_only() -> None:
    same = HARSH.override({"transpose.offset": 0.02})
    assert same == HARSH
    assert same.sha256 == HARSH.sha256
    assert hash(same) == hash(HARSH)
    assert same.text() != HARSH.text()
    assert HARSH.override({"transpose.offset": 0.03}) != HARSH
    assert HARSH != "harsh"
    assert len({load_card(name).sha256 for name in list_cards()}) == len(list_cards())


def test_hash_of_the_ideal_card_stays() -> None:
    """Results are filed under it, so a change here must be on purpose."""
    assert IDEAL.sha256 == "d10efb7d24c53e02aea28c4dfb5fbcb46f66af0c1ba58a6e7ae8942eaddaebb1"


@pytest.mark.parametrize("name", list_cards())
def test_text_reads_back_to_an_equal_card(name: str, tmp_path: Path) -> None:
    card = load_card(name).override({"transpose.offset": 0.125, "forward.output_range": None})
    path = tmp_path / "any.toml"
    path.write_text(card.text(), encoding="utf-8")
    back = load_card(path)
    assert back == card
    assert back.text() == card.text()
    assert back.entries() == card.entries()
    assert (back.name, back.description) == (card.name, card.description)


def test_text_quotes_awkward_titles() -> None:
    card = dataclasses.replace(IDEAL, title='a "b" \\ \x7f \n é \t c')
    assert parse_card(card.text(), {}, "here").title == card.title


def test_pickle() -> None:
    card = HARSH.override({"transpose.offset": 0.5})
    back = pickle.loads(pickle.dumps(card))
    assert back == card
    assert back.text() == card.text()


def test_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        HARSH.name = "other"  # type: ignore[misc]


ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=20),
    st.binary(max_size=5),
    st.lists(st.integers(), max_size=2),
    st.complex_numbers(),
    st.fractions(),
    st.decimals(),
)
KEYS = st.one_of(st.sampled_from(sorted(SCHEMA)), st.text(max_size=30), st.integers())


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(list_cards()), st.dictionaries(KEYS, ANYTHING, max_size=4))
def test_only_card_errors_come_out_of_override(name: str, changes: dict[str, object]) -> None:
    try:
        card = load_card(name).override(changes)
    except CardError:
        return
    _holds(card)


def _allowed(entry: Entry) -> st.SearchStrategy[Value]:
    spec = entry.spec
    values: st.SearchStrategy[Value]
    if entry.choices:
        values = st.sampled_from(entry.choices)
    elif entry.table:
        top = st.floats(1e-3, spec.high)
        values = top.map(lambda y: Table.of([0.0, spec.high], [0.0, y]))
    elif entry.integer:
        values = st.integers(int(spec.low), int(spec.high))
    else:
        values = st.floats(spec.low, spec.high, exclude_min=spec.above_low)
    return st.one_of(st.none(), values) if spec.has_ideal else values


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_allowed_values_survive_text_hash_and_pickle(data: st.DataObject) -> None:
    keys = data.draw(st.lists(st.sampled_from(sorted(SCHEMA)), max_size=6, unique=True))
    changes = {key: data.draw(_allowed(SCHEMA[key])) for key in keys}
    try:
        card = HARSH.override(changes)
    except CardError as error:
        assert "allowed: " in str(error)
        return
    _holds(card)


def _holds(card: Card) -> None:
    back = parse_card(card.text(), shipped_sources(), "text")
    assert back == card == pickle.loads(pickle.dumps(card))
    assert back.sha256 == card.sha256
    for view in card.entries():
        entry = SCHEMA[view.key]
        assert view.value is not None or entry.optional
        if entry.integer and view.value is not None:
            assert type(view.value) is int
