import math

import pytest

from eptsim.testing.check import Measured, both, count


@pytest.mark.parametrize(
    ("value", "limit", "within"),
    [(1.0, 1.0, True), (1.1, 1.0, False), (0.0, 0.0, True), (math.nan, 1.0, False),
     (math.inf, 1.0, False)],
)  # fmt: skip
def test_a_limit_is_kept_or_not_and_nan_never_keeps_it(value, limit, within):
    measured = Measured("x", value, limit)
    assert measured.within is within
    assert (measured.excess <= 1.0) is within


def test_a_count_allows_none():
    assert count("a", False).within
    assert not count("a", 2).within
    assert "allowed: at most 0" in str(count("a", True))


def test_a_check_of_both_directions():
    one, other = both("t", "n", "c", "truth", lambda bench, direction: [count(direction, False)])
    assert (one.id, other.id) == ("t/n-forward", "t/n-transpose")
    assert next(iter(other.run(None))).what == "transpose"
