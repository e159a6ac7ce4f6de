"""Every argument check names what was found and what is allowed (all cases: test_crossbar.py)."""

import numpy as np
import pytest
import torch

from eptsim.base.errors import InputError
from eptsim.crossbar.checks import (
    check_count,
    check_range,
    check_reference,
    check_vectors,
    check_weight,
)

LIKE = torch.zeros(2, 3)


def test_good_arguments_pass():
    check_weight(torch.ones(1, 1, dtype=torch.float64), "a")
    check_vectors(torch.ones(4, 2, 3), "x", 3, (5, 3), LIKE)
    check_vectors(torch.ones(0, 3), "x", 3, (5, 3), LIKE)
    check_reference(torch.ones(2, 3), LIKE)
    check_reference(None, LIKE)


@pytest.mark.parametrize("value", [1, np.int64(7), 2**32])
def test_counts(value):
    assert check_count(value, "n") == int(value)
    assert type(check_count(value, "n")) is int


@pytest.mark.parametrize("value", [0, -1, 1.0, "1", None, True, 2**70])
def test_what_is_no_count(value):
    with pytest.raises(InputError, match=r"n: found .*, allowed: an integer from 1"):
        check_count(value, "n")


@pytest.mark.parametrize("value", [1, 0.5, np.float32(0.5), 1e-300, 3.4e38])
def test_ranges(value):
    assert check_range(value, "r", torch.float64) == float(value)


@pytest.mark.parametrize(
    "value", [0, -1.0, np.nan, np.inf, 1e39, "1", None, True, pytest.param(2**20000, id="huge")]
)
def test_what_is_no_range(value):
    with pytest.raises(InputError, match=r"r: found .*, allowed: a number above 0 within torch"):
        check_range(value, "r", torch.float32)


def test_the_message_says_what_is_allowed():
    with pytest.raises(InputError, match=r"x: found shape \(4, 2\), allowed: \(..., 3\) for a"):
        check_vectors(torch.ones(4, 2), "x", 3, (5, 3), LIKE)
    with pytest.raises(InputError, match=r"found torch.float64.* allowed: torch.float32"):
        check_vectors(torch.ones(4, 3).double(), "x", 3, (5, 3), LIKE)
    with pytest.raises(InputError, match=r"found \(3, 2\).* allowed: \(2, 3\) \(segments, lines\)"):
        check_reference(torch.ones(3, 2), LIKE)
    with pytest.raises(InputError, match=r"array 'a': weight: found torch.int64, allowed"):
        check_weight(torch.ones(2, 2, dtype=torch.int64), "a")
