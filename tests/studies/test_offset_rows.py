"""Rows of the offset study and their named arrays."""

import numpy as np
import pytest

from eptsim.base.errors import SettleError
from eptsim.chip import Chip
from eptsim.ep.compare import ARRAY_NAMES
from eptsim.ep.controller import EPController
from eptsim.studies.offset_rows import REFUSED, measured_row, refused_row, variables


def measure(bench):
    chip = Chip(bench.model, bench.card, 0)
    return EPController(chip, 0.01, "one_sided", "none").gradient(bench.tokens, bench.targets)


def test_a_measured_row_holds_total_blocks_and_arrays(bench):
    found = measure(bench)
    row = measured_row(found, bench.exact, found)
    assert row.outcome == "converged" and row.reason == ""
    assert row.total[0] > 0.9999 and row.total[1] < 0.02
    assert row.offset_free == (pytest.approx(1.0), 0.0)
    other = measured_row(found, bench.exact, bench.exact)  # the same numbers as compare's
    assert other.offset_free == pytest.approx(other.total[:2], rel=1e-9)
    assert row.blocks.shape == (2, 2) and row.arrays.shape == (2, len(ARRAY_NAMES), 2)


def test_a_refused_row_has_a_reason_and_no_number():
    row = refused_row(SettleError("No gradient: x"), 2)
    assert row.outcome == REFUSED and "No gradient" in row.reason
    assert np.isnan([*row.total, *row.offset_free, row.loss]).all() and np.isnan(row.arrays).all()


def test_variables_are_named_with_units(bench):
    found = measure(bench)
    rows = [measured_row(found, bench.exact, found), refused_row(SettleError("why"), 2)]
    arrays, coords = variables(rows, (0.0, 0.1), 1.5)
    assert arrays["cosine"].data.shape == (2,) and np.isnan(arrays["cosine"].data[1])
    assert arrays["array_cosine"].dims == ("amplitude", "block", "array")
    assert list(arrays["outcome"].data) == ["converged", REFUSED]
    assert arrays["reason"].data[1] == "why"
    assert list(coords["block"].data) == [1, 2]
    assert all(variable.unit and variable.description for variable in arrays.values())
