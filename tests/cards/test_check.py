"""Every value that an entry refuses, and every pair of values that do not fit together."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from eptsim.base.errors import CardError
from eptsim.cards import load_card
from eptsim.cards.check import check_value, find_entry, show
from eptsim.cards.schema import SCHEMA

NUMBERS = [key for key, entry in SCHEMA.items() if not entry.choices]
INTEGERS = [key for key, entry in SCHEMA.items() if entry.integer]
CHOICES = [key for key, entry in SCHEMA.items() if entry.choices]


@pytest.mark.parametrize("key", NUMBERS)
@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        -float("inf"),
        True,
        False,
        np.bool_(True),
        "1",
        "",
        b"1",
        1j,
        [1.0],
        {},
        np.float64("nan"),
        np.zeros(1),
        -1,
        pytest.param(10**6000, id="huge"),
        pytest.param(-(10**6000), id="-huge"),
    ],
)
def test_numbers_refuse(key: str, value: object) -> None:
    with pytest.raises(CardError, match=f"here: {key}: found .*, allowed: a "):
        check_value(SCHEMA[key], value, "here")


@pytest.mark.parametrize("key", NUMBERS)
def test_numbers_refuse_beyond_the_range(key: str) -> None:
    spec = SCHEMA[key].spec
    with pytest.raises(CardError, match="allowed: a "):
        check_value(SCHEMA[key], spec.high * 1.5, "here")
    if spec.above_low:
        with pytest.raises(CardError, match=r"found 0\.0, allowed: a number in \(0"):
            check_value(SCHEMA[key], 0.0, "here")


@pytest.mark.parametrize("key", INTEGERS)
def test_integers_refuse_fractions_and_zero(key: str) -> None:
    with pytest.raises(CardError, match=r"found 2\.5, allowed: a whole number"):
        check_value(SCHEMA[key], 2.5, "here")
    with pytest.raises(CardError, match="0 does not mean ideal; leave the entry out, or give None"):
        check_value(SCHEMA[key], 0, "here")


@pytest.mark.parametrize("key", CHOICES)
def test_choices_refuse_with_the_nearest(key: str) -> None:
    name = SCHEMA[key].choices[-1]
    with pytest.raises(CardError, match=f"Did you mean {name!r}"):
        check_value(SCHEMA[key], name[:-1], "here")
    with pytest.raises(CardError, match="found 3, allowed"):
        check_value(SCHEMA[key], 3, "here")


@pytest.mark.parametrize("key", list(SCHEMA))
@pytest.mark.parametrize("ideal", [None, "ideal"])
def test_none_and_ideal_give_the_ideal_value_where_there_is_one(key: str, ideal: object) -> None:
    entry = SCHEMA[key]
    if entry.spec.has_ideal:
        assert check_value(entry, ideal, "here") == entry.default
    else:
        with pytest.raises(CardError, match="It has no ideal value"):
            check_value(entry, ideal, "here")


@pytest.mark.parametrize(
    "value", [1, 1.0, np.float32(1), np.int64(1), np.float16(1), Fraction(1, 1)]
)
def test_real_numbers_of_any_make_become_plain(value: object) -> None:
    assert type(check_value(SCHEMA["forward.offset"], value, "here")) is float
    assert type(check_value(SCHEMA["array.rows"], value, "here")) is int


def test_negative_zero_becomes_zero() -> None:
    assert str(check_value(SCHEMA["forward.offset"], -0.0, "here")) == "0.0"


def test_unknown_key_lists_its_section_and_the_nearest() -> None:
    with pytest.raises(CardError, match=r"array\.mapping.*Did you mean 'array\.rows'"):
        find_entry("array.row", "here")
    with pytest.raises(CardError, match=r"allowed: .*cell\.\*"):
        find_entry("nonsense", "here")
    with pytest.raises(CardError, match="no such card entry"):
        find_entry(None, "here")


def test_show_is_short() -> None:
    assert show("x" * 1000).endswith("...")
    assert show(10**6000) == "a number too large to print"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cell.g_min_s": 2e-5}, r"cell\.g_min_s: found 2e-05 S, allowed: below cell\.g_max_s"),
        ({"cell.g_min_s": 1e-5}, r"allowed: below cell\.g_max_s = 1e-05 S"),
        ({"cell.g_max_s": 1e-9, "cell.g_min_s": 1e-8}, r"cell\.g_min_s: found 1e-08 S"),
        ({"cell.read_noise.sigma": 0.1}, r"while cell\.read_noise\.law is 'none'"),
        ({"cell.read_noise.law": "constant"}, r"'constant' without cell\.read_noise\.sigma"),
        ({"cell.drift.time_s": 60}, r"cell\.drift\.time_s: found 60 s without cell\.drift\.nu"),
        ({"cell.drift.t0_s": 60}, r"cell\.drift\.t0_s: found 60 s without cell\.drift\.nu"),
        ({"cell.drift.nu": 0.1, "cell.drift.time_s": 1}, r"at least cell\.drift\.t0_s = 20 s"),
        ({"cell.stuck.low": 0.6, "cell.stuck.high": 0.5}, r"found 0\.6 \+ 0\.5, allowed: a sum"),
    ],
)
def test_values_that_do_not_fit_together(changes: dict[str, object], message: str) -> None:
    with pytest.raises(CardError, match=message):
        load_card("ideal").override(changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"cell.drift.nu": 0.05},
        {"cell.drift.nu_sigma": 0.05},
        {"cell.drift.nu_sigma": 0.05, "cell.drift.time_s": 20},
        {"cell.read_noise.law": "constant", "cell.read_noise.sigma": 0.0},
        {"cell.stuck.low": 1.0},
        {"cell.levels": 2},
    ],
)
def test_values_that_do(changes: dict[str, object]) -> None:
    load_card("ideal").override(changes)


def test_a_sweep_may_begin_at_zero() -> None:
    card = load_card("pcm_mushroom")
    for key in ("cell.read_noise.sigma", "cell.drift.nu", "cell.drift.nu_sigma"):
        assert card.override({key: 0}).get(key) == 0.0
