"""Loading: every malformed file is refused with file, key, what was found and what is allowed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eptsim.base.errors import CardError
from eptsim.cards import list_cards, load_card
from eptsim.cards.loader import parse_card
from eptsim.cards.schema import SCHEMA

HEADER = """
[card]
name = "x"
title = "X"
description = "A card for tests."
technology = "none"
"""
G_MAX = 'g_max_s = { value = 5, unit = "uS", kind = "assumed" }'
SOURCE = "@misc{me2025,\n author = {Me},\n title = {Mine},\n year = 2025\n}\n"


def write(folder: Path, body: str, header: str = HEADER) -> Path:
    path = folder / "x.toml"
    path.write_text(header + body, encoding="utf-8")
    return path


def test_a_small_card_loads_with_defaults(tmp_path: Path) -> None:
    card = load_card(write(tmp_path, f"[cell]\n{G_MAX}\n"))
    assert card.cell.g_max_s == 5e-6
    assert card.title == "X"
    assert load_card(str(tmp_path / "x.toml")) == card


def test_units_are_converted(tmp_path: Path) -> None:
    body = """
[cell]
drift.nu = { value = 5, unit = "percent", kind = "assumed" }
drift.time_s = { value = 2, unit = "h", kind = "assumed" }
[array]
wire_bit_ohm = { value = 0.35, unit = "kohm", kind = "assumed" }
"""
    card = load_card(write(tmp_path, body))
    assert (card.cell.drift.nu, card.cell.drift.time_s) == (0.05, 7200.0)
    assert card.array.wire_bit_ohm == 350.0


def test_ideal_may_be_said(tmp_path: Path) -> None:
    body = """
[forward]
adc_bits = { value = "ideal", unit = "bit", kind = "assumed" }
offset = { value = "ideal", unit = "1", kind = "assumed" }
"""
    card = load_card(write(tmp_path, body))
    assert (card.forward.adc_bits, card.forward.offset) == (None, 0.0)


def test_a_card_may_cite_a_bibliography_beside_it(tmp_path: Path) -> None:
    entry = '{ value = 5, unit = "uS", kind = "measured", source = "me2025", where = "Fig. 1" }'
    path = write(tmp_path, f"[cell]\ng_max_s = {entry}\n")
    with pytest.raises(CardError, match=r"g_max_s\.source: found 'me2025', allowed: a key of"):
        load_card(path)
    (tmp_path / "sources.bib").write_text(SOURCE, encoding="utf-8")
    assert load_card(path).entries()[1].source == "me2025"
    (tmp_path / "sources.bib").write_text("@misc{me2025", encoding="utf-8")
    with pytest.raises(CardError, match=r"sources\.bib: line 1"):
        load_card(path)


def test_byte_order_mark_and_carriage_returns_are_fine(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_bytes(b"\xef\xbb\xbf" + HEADER.replace("\n", "\r\n").encode())
    assert load_card(path).name == "x"


NUMBER = "[forward]\noffset = {{ {} }}\n"

REFUSED = [
    ("[cel]\n", r"x\.toml: cel: no such card entry.*"),
    ("[cell]\ng_maxs = 1\n", r"cell\.g_maxs: no such card entry, .*Did you mean 'cell\.g_max_s'"),
    ("[cell.drifts]\nnu = 1\n", r"cell\.drifts: no such card entry"),
    ("[transpose]\nofset = 1\n", r"Did you mean 'transpose\.offset'"),
    ("cell = 3\n", r"card\.cell: no such key"),
    ("[forward]\noffset = 0.1\n", r"forward\.offset: found 0\.1, allowed: a table \{ value ="),
    ("[array]\nmapping = 'offset'\n", r"mapping: found 'offset', allowed: a table \{ value ="),
    (
        NUMBER.format('unit = "1", kind = "assumed"'),
        r"offset\.value: found nothing, allowed: a num",
    ),
    (
        NUMBER.format('value = 0.1, kind = "assumed"'),
        r"offset\.unit: found nothing, allowed: 1, pe",
    ),
    (NUMBER.format('value = 0.1, unit = 1, kind = "assumed"'), r"offset\.unit: found 1, allowed"),
    (NUMBER.format('value = 0.1, unit = "V", kind = "assumed"'), r"offset\.unit: found 'V', allo"),
    (NUMBER.format('value = 0.1, unit = "percnt", kind = "assumed"'), "Did you mean 'percent'"),
    (NUMBER.format('value = 0.1, unit = "1"'), r"offset\.kind: found nothing, allowed: measured, "),
    (NUMBER.format('value = 0.1, unit = "1", kind = "asumed"'), "Did you mean 'assumed'"),
    (NUMBER.format('value = 0.1, unit = "1", kind = 3'), r"offset\.kind: found 3, allowed: a text"),
    (NUMBER.format('value = 0.1, unit = "1", kind = "default"'), "found 'default' with the value"),
    (NUMBER.format('value = 0.1, unit = "1", kind = "fitted"'), r"offset\.source: found nothing"),
    (
        NUMBER.format('value = 0.1, unit = "1", kind = "measured", source = "aihwkit"'),
        r"offset\.where: found nothing.*only an 'assumed' number",
    ),
    (
        NUMBER.format('value = 0.1, unit = "1", kind = "measured", source = "aihwki", where = "x"'),
        r"offset\.source: found 'aihwki'.*Did you mean 'aihwkit'",
    ),
    (NUMBER.format('value = 0.1, unit = "1", kind = "assumed", valu = 1'), "Did you mean 'value'"),
    (NUMBER.format('value = nan, unit = "1", kind = "assumed"'), "found nan"),
    (NUMBER.format('value = inf, unit = "1", kind = "assumed"'), "found inf"),
    (NUMBER.format('value = true, unit = "1", kind = "assumed"'), "found True"),
    (NUMBER.format('value = "0.1", unit = "1", kind = "assumed"'), "found '0.1'"),
    (NUMBER.format('value = 1979-05-27, unit = "1", kind = "assumed"'), "found datetime"),
    (NUMBER.format('value = -0.1, unit = "1", kind = "assumed"'), r"found -0\.1, allowed: a numb"),
    (NUMBER.format(f'value = 0x{"f" * 5000}, unit = "1", kind = "assumed"'), "too large"),
    (NUMBER.format(f'value = {"9" * 5000}, unit = "1", kind = "assumed"'), "not valid TOML"),
    (f"[forward]\noffset = 0x{'f' * 5000}\n", "a number too large to print"),
    ("[forward]\noffset = 1\noffset = 2\n", r"not valid TOML: .*line 9"),
    (f"[cell]\n{G_MAX}\n[cell]\n", r"not valid TOML: .*line 9"),
    ('"cell.g_max_s" = 1\n', r"card\.cell\.g_max_s: no such key"),
    ('[cell]\n"drift.nu" = 1\n', r"cell\.drift\.nu: found a quoted key with a dot"),
    ("[cell]\ndrift = 1\n", r"cell\.drift: found 1, allowed: a table \[cell\.drift\]"),
    ("[[cell]]\n", r"cell: found \[\{\}\], allowed: a table"),
    ("[forward]\nadc_bits = { value = 0, unit = 'bit', kind = 'assumed' }\n", "not mean ideal"),
    (
        "[cell]\ng_min_s = { value = 1, unit = 'S', kind = 'assumed' }\n",
        r"x\.toml: cell\.g_min_s: found 1 S, allowed: below",
    ),
    (
        "[array]\nmapping = { value = 'offset', unit = '1', kind = 'assumed' }\n",
        r"array\.mapping\.unit: no such key",
    ),
    ("[forward]\noffset = {\n", r"not valid TOML: .*line"),
    ("[forward", r"not valid TOML: .*line 7"),
    (f"[forward]\noffset = {'[' * 5000}\n", "not valid TOML"),
]


@pytest.mark.parametrize(("body", "message"), REFUSED, ids=[str(i) for i in range(len(REFUSED))])
def test_refused(body: str, message: str, tmp_path: Path) -> None:
    path = write(tmp_path, body)
    with pytest.raises(CardError, match=message) as caught:
        load_card(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("", "found an empty file"),
        ("# only a comment\n", "found an empty file"),
        ("[cell]\n", r"card: found nothing, allowed: a table \[card\]"),
        ("card = 3\n", "card: found 3, allowed"),
        ("[card]\nname = 'x'\n", r"card\.title: found nothing, allowed: a text"),
        (HEADER.replace('"X"', "3"), r"card\.title: found 3, allowed: a text"),
        (HEADER.replace('"X"', '" "'), r"card\.title: found ' ', allowed: a text"),
        (HEADER.replace("title", "titel"), r"card\.titel: no such key.*Did you mean 'title'"),
    ],
)
def test_header_refused(header: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(CardError, match=message):
        load_card(write(tmp_path, "", header))


def test_unknown_name_lists_what_is_shipped() -> None:
    with pytest.raises(CardError, match=r"found 'pcm_mushrom', allowed: .*ideal.*Did you mean"):
        load_card("pcm_mushrom")
    with pytest.raises(CardError, match=r"harsh\.toml: no such file.*Did you mean 'harsh'"):
        load_card("nowhere/harsh.toml")
    with pytest.raises(CardError, match="found '', allowed"):
        load_card("")


@pytest.mark.parametrize("path", [Path(), Path("a\0b"), Path("a" * 5000), "a\0b/", "\ud800/"])
def test_unreadable_paths(path: Path | str) -> None:
    with pytest.raises(CardError, match=r"cannot be read|no such file"):
        load_card(path)


def test_binary_files(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_bytes(b"\x89HDF\r\n\x1a\n\xff\xfe")
    with pytest.raises(CardError, match=r"x\.toml: found bytes that are no text \(byte 0\)"):
        load_card(path)


@pytest.mark.parametrize("other", [None, 3, b"ideal", load_card("ideal")])
def test_other_types(other: object) -> None:
    with pytest.raises(
        CardError, match=r"load_card: found .*, allowed: the name of a card or a path"
    ):
        load_card(cast("str", other))


def test_cards_are_found_in_a_checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "eptsim.devices", None)
    assert "ideal" in list_cards()
    assert load_card("ideal").name == "ideal"


def test_missing_devices_say_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "eptsim.devices", None)
    monkeypatch.setattr("eptsim.cards.loader.__file__", str(tmp_path / "a" / "b" / "loader.py"))
    with pytest.raises(CardError, match="reinstall eptsim"):
        list_cards()


SCALAR = st.one_of(
    st.sampled_from(["nan", "inf", "true", "[]", "{}", '""', '"ideal"', "1979-05-27", "0x10"]),
    st.integers().map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
)
WORD = st.sampled_from(["1", "S", "uS", "bit", "s", "measured", "assumed", "default", "aihwkit"])
FIELD = st.one_of(
    st.tuples(st.just("value"), SCALAR),
    st.tuples(
        st.sampled_from(["unit", "kind", "source", "where", "why", "x"]),
        WORD.map(lambda w: f'"{w}"'),
    ),
)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(sorted(SCHEMA)), st.lists(FIELD, max_size=6))
def test_only_card_errors_come_out_of_entries(key: str, fields: list[tuple[str, str]]) -> None:
    entry = ", ".join(f"{name} = {value}" for name, value in fields)
    text = f"{key} = {{ {entry} }}\n{HEADER}"
    try:
        parse_card(text, {}, "here")
    except CardError as error:
        assert str(error).startswith("here: ")


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.text(), st.text(alphabet="[]{}=\"\n.acdelr '1-#")))
def test_only_card_errors_come_out_of_text(text: str) -> None:
    for body in (text, HEADER + text):
        try:
            parse_card(body, {}, "here")
        except CardError as error:
            assert str(error).startswith("here: ")


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=40))
def test_only_card_errors_come_out_of_names(name: str) -> None:
    if name not in list_cards():
        with pytest.raises(CardError):
            load_card(name)
