"""Reading an offset study back: grouping, order, medians, refusals."""

import numpy as np
import pytest

from eptsim.base.errors import ResultsError
from eptsim.report.curves import read_curves
from eptsim.results.store import write_result


def test_one_curve_per_place_and_method_plainest_first(paths):
    curves = read_curves(reversed(paths))
    assert [(c.entry, c.measurement, c.reference, c.range_policy) for c in curves] == [
        ("transpose", "one_sided", "none", "held"),
        ("transpose", "one_sided", "weight", "held"),
        ("transpose", "one_sided", "node", "held"),
        ("transpose", "one_sided", "line", "held"),
        ("transpose", "one_sided", "weight", "per_vector"),
        ("transpose", "centred", "none", "held"),
        ("transpose", "predictive_coding", "none", "held"),
        ("forward", "one_sided", "none", "held"),
        ("forward", "one_sided", "line", "held"),
    ]
    assert all(curve.seeds == 2 for curve in curves)
    assert len({curve.label for curve in curves[:7]}) == 7
    assert curves[6].label == "predictive coding (β = 1)"


def test_medians_and_spread_leave_refused_ones_out(paths):
    curves = read_curves(paths)
    bare, weight = curves[0], curves[1]
    assert bare.at("cosine", 0.0) == pytest.approx(0.945)
    low, high = bare.spread("cosine")
    assert (low[0], high[0]) == (0.94, 0.95)
    assert list(weight.refused) == [0, 0, 1]
    assert weight.at("cosine", 0.02) == pytest.approx(0.1)
    assert weight.middle("block_cosine").shape == (3, 2)


def test_all_refused_is_nan(paths):
    curve = read_curves([paths[3], paths[12]][1:])[0]
    assert np.isnan(curve.at("cosine", 0.02))


def test_refuses_other_results(tmp_path):
    other = write_result(tmp_path, {"kind": "beta"}, {})
    with pytest.raises(ResultsError, match="beta"):
        read_curves([other])
    with pytest.raises(ResultsError, match="no result"):
        read_curves([])
