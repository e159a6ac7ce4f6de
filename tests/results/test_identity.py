"""A task's identity: one text for equal settings, another for different ones."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eptsim.base.errors import InputError
from eptsim.results.identity import canonical_json, task_hash

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(),
)
SETTINGS = st.dictionaries(
    st.text(),
    st.recursive(
        SCALARS,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
        max_leaves=12,
    ),
    max_size=5,
)


def reversed_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: reversed_keys(value[key]) for key in reversed(value)}
    return [reversed_keys(item) for item in value] if isinstance(value, list) else value


@given(SETTINGS)
def test_round_trip_and_order_of_keys(settings: dict[str, Any]) -> None:
    text = canonical_json(settings)
    assert text.isascii() and json.loads(text) == settings
    assert canonical_json(json.loads(text)) == text
    assert task_hash(reversed_keys(settings)) == task_hash(settings)
    assert len(task_hash(settings)) == 16 and int(task_hash(settings), 16) >= 0


@given(SETTINGS, SETTINGS)
def test_different_texts_have_different_hashes(a: dict[str, Any], b: dict[str, Any]) -> None:
    assert (canonical_json(a) == canonical_json(b)) == (task_hash(a) == task_hash(b))


def test_pinned() -> None:
    settings = {"ep": {"beta": 0.01, "reads": 3}, "card": "pcm", "sweeps": None, "on": True}
    text = '{"card":"pcm","ep":{"beta":0.01,"reads":3},"on":true,"sweeps":null}'
    assert canonical_json(settings) == text
    assert task_hash(settings) == "be3aa7440ab7f273"


def test_numbers() -> None:
    assert task_hash({"a": (1, 2)}) == task_hash({"a": [1, 2]})
    assert task_hash({"a": np.float64(0.1)}) == task_hash({"a": 0.1})
    assert len({task_hash({"a": v}) for v in (1, 1.0, True, "1", None, -0.0, 0.0)}) == 7
    assert canonical_json({"a": 0.1 + 0.2}) == '{"a":0.30000000000000004}'


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (math.nan, r"settings\.a\.b\[1\]: found nan, allowed: finite"),
        (math.inf, "found inf"),
        (np.float64("nan"), "nan"),
        (np.int64(3), r"found np.int64\(3\) \(int64\), allowed: null, booleans"),
        (b"x", r"\(bytes\)"),
        ({1}, r"\(set\)"),
        (1j, r"\(complex\)"),
        ({3: 1}, "found the key 3, allowed: strings"),
        (1 << 2000, "beyond 2"),
    ],
)
def test_values_without_a_json_form(value: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        task_hash({"a": {"b": [0, value]}})


def test_not_a_mapping_and_bottomless() -> None:
    with pytest.raises(InputError, match="found list, allowed: a mapping"):
        task_hash([1])  # type: ignore[arg-type]
    loop: dict[str, Any] = {}
    loop["self"] = loop
    with pytest.raises(InputError, match="nested too deep"):
        task_hash(loop)
