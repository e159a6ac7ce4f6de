"""A table is exact at its points, linear between, flat beyond; anything else is refused."""

from __future__ import annotations

import numpy as np
import pytest

from eptsim.base.errors import InputError
from eptsim.base.table import Table


def test_linear_between_and_flat_beyond() -> None:
    table = Table.of([0.0, 1.0, 3.0], np.array([1.0, 2.0, 0.0]))
    np.testing.assert_allclose(table.at(np.array([-1.0, 0, 0.5, 2, 3, 9])), [1, 1, 1.5, 1, 0, 0])


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        ((0.0,), (1.0,), "found 1 points"),
        ((0.0, 1.0), (1.0,), "2 points of x and 1 of y"),
        ((0.0, 0.0), (1.0, 2.0), "x = 0 after 0"),
        ((1.0, 0.0), (1.0, 2.0), "x = 0 after 1"),
        ((0.0, float("nan")), (1.0, 2.0), "NaN or infinity"),
        ((0.0, 1.0), (1.0, float("inf")), "NaN or infinity"),
        ("01", (1.0, 2.0), "x: found str, allowed: a tuple of numbers"),
        (None, (1.0, 2.0), "x: found NoneType"),
        ((0.0, 1.0), [1.0, 2.0], "y: found list"),
        ((0.0, 1j), (1.0, 2.0), "x: found tuple"),
        ((0.0, (1.0,)), (1.0, 2.0), "x: found tuple"),
        ((0.0, 10**400), (1.0, 2.0), "x: found tuple"),
        ((0.0, True), (1.0, 2.0), "x: found tuple"),
    ],
)
def test_bad_tables_are_refused(
    x: tuple[float, ...], y: tuple[float, ...], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        Table(x, y)


@pytest.mark.parametrize("x", [None, 3, "ab", [1j, 2.0], [10**400, 1], [[0.0], [1.0]], [None, 1.0]])
def test_what_is_no_sequence_of_numbers_is_refused(x: object) -> None:
    with pytest.raises(InputError, match="table: x: found"):
        Table.of(x, [1.0, 2.0])  # type: ignore[arg-type]
