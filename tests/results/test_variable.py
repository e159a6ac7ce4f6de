"""One variable: what data, dimensions and units it takes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from eptsim.base.errors import ResultsError
from eptsim.results.variable import Variable


def test_plain_numbers_become_arrays() -> None:
    assert Variable(3.0, (), "1").data.shape == ()  # type: ignore[arg-type]
    assert Variable([1, 2], ["x"], "1").dims == ("x",)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "data",
    [
        np.array([1j]),
        np.array([None]),
        np.array([b"x"]),
        np.array([1], np.float16),
        np.array([1], np.longdouble),
        np.array(["2020-01-01"], "M8[D]"),
    ],
)
def test_kinds_of_data_that_hdf5_tools_do_not_share(data: np.ndarray[Any, Any]) -> None:
    with pytest.raises(ResultsError, match=r"found dtype .*, allowed: boolean"):
        Variable(data, ("x",), "1")


def test_not_an_array() -> None:
    with pytest.raises(ResultsError, match="found dict, allowed: an ndarray"):
        Variable({}, (), "1")  # type: ignore[arg-type]


@pytest.mark.parametrize("text", ["a\0b", "\ud800"])
def test_text_that_hdf5_cannot_hold(text: str) -> None:
    with pytest.raises(ResultsError, match="NUL"):
        Variable(np.array([text]), ("x",), "1")
    with pytest.raises(ResultsError, match="description"):
        Variable(np.array(1), (), "1", text)
    with pytest.raises(ResultsError, match="unit"):
        Variable(np.array(1), (), text)


@pytest.mark.parametrize("dims", [(), ("x",), ("x", "x"), ("x", "y", "z")])
def test_dims_that_do_not_fit(dims: tuple[str, ...]) -> None:
    with pytest.raises(ResultsError, match=r"shape \(2, 3\), allowed: one name of its own"):
        Variable(np.ones((2, 3)), dims, "1")


@pytest.mark.parametrize("unit", ["", " ", None])
def test_no_unit(unit: Any) -> None:
    with pytest.raises(ResultsError, match="allowed: a symbol"):
        Variable(np.ones(()), (), unit)


@pytest.mark.parametrize(("unit", "symbol"), [("seconds", "s"), ("days since 2020-01-01", "s")])
def test_units_that_readers_turn_into_dates(unit: str, symbol: str) -> None:
    with pytest.raises(ResultsError, match=f"found '{unit}', allowed: '{symbol}'"):
        Variable(np.ones(()), (), unit)
