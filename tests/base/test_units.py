"""Units: exact decimal conversion, and refusals that say what is allowed."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eptsim.base.errors import InputError
from eptsim.base.units import DIMENSIONS, UNITS, base_unit, to_base, units_of


@pytest.mark.parametrize(
    ("value", "unit", "dimension", "expected"),
    [
        (25, "uS", "conductance", 25e-6),
        (10.35, "uS", "conductance", 10.35e-6),
        (3, "nS", "conductance", 3e-9),
        (0.35, "ohm", "resistance", 0.35),
        (1, "Mohm", "resistance", 1e6),
        (200, "mV", "voltage", 0.2),
        (128, "ns", "time", 128e-9),
        (1, "h", "time", 3600.0),
        (2, "day", "time", 172800.0),
        (3, "percent", "dimensionless", 0.03),
        (8, "bit", "bits", 8.0),
    ],
)
def test_converts_to_the_nearest_float(
    value: float, unit: str, dimension: str, expected: float
) -> None:
    assert to_base(value, unit, dimension) == expected


def test_every_dimension_has_a_base_unit_worth_one() -> None:
    for dimension in DIMENSIONS:
        assert UNITS[base_unit(dimension)].factor == 1
        assert base_unit(dimension) == units_of(dimension)[0]


@given(
    st.floats(allow_nan=False, allow_infinity=False, min_value=-1e200, max_value=1e200),
    st.sampled_from(sorted(UNITS)),
)
def test_conversion_is_a_scaling(value: float, symbol: str) -> None:
    unit = UNITS[symbol]
    converted = to_base(value, symbol, unit.dimension)
    assert math.isclose(converted, value * float(unit.factor), rel_tol=1e-14, abs_tol=1e-300)


def test_unknown_unit_is_refused_with_the_nearest() -> None:
    with pytest.raises(InputError, match=r"found 'us', allowed for a conductance: S, .*'uS'"):
        to_base(1.0, "us", "conductance")


def test_unit_of_another_dimension_is_refused() -> None:
    with pytest.raises(InputError, match=r"found 'V', allowed for a time"):
        to_base(1.0, "V", "time")


def test_unknown_dimension_is_refused() -> None:
    with pytest.raises(InputError, match=r"found 'conductanc'.*Did you mean 'conductance'"):
        units_of("conductanc")
