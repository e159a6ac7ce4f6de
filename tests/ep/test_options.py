"""Settings of a measurement: defaults, order of references, and what is refused."""

import json
import math

import numpy as np
import pytest
import torch

import eptsim
from eptsim.base.errors import InputError
from eptsim.ep.options import MEASUREMENTS, REFERENCES, Options

DEFAULTS = {
    "beta": None, "measurement": "centred", "reference": None, "range_policy": "held",
    "sweeps": None, "tolerance": None, "max_sweeps": 200, "reads": 1, "dtype": torch.float64,
}


def checked(**changes):
    return Options.checked(**{**DEFAULTS, **changes})


def refused(match, **changes):
    with pytest.raises(InputError, match=match):
        checked(**changes)


@pytest.mark.parametrize("measurement", MEASUREMENTS)
def test_defaults(measurement):
    options = checked(measurement=measurement)
    hard = measurement == "predictive_coding"
    assert options.beta == (1.0 if hard else 0.01)
    assert options.reference == ("none" if hard else "line")
    assert options.tolerance == (1e-3 if hard else 1e-10)
    assert checked(measurement=measurement, dtype=torch.float32).tolerance >= 1e-4


@pytest.mark.parametrize(
    "beta", [0, 0.0, -0.0, math.nan, math.inf, -math.inf, "0.01", True, False, None, [0.1], 1j,
             1e-320, 1e-13, 1e5, 1e300, -1e5, torch.tensor(0.1)],
)
def test_bad_beta(beta):
    if beta is None:
        assert checked(beta=None).beta == 0.01
    else:
        refused("beta: found .*allowed: a number of magnitude 1e-12 to 10000", beta=beta)


@pytest.mark.parametrize("beta", [1e-3, -0.5, 50, np.float64(0.1), np.float32(0.5), np.int64(1)])
def test_good_beta(beta):
    found = checked(beta=beta).beta
    assert found == float(beta)
    assert type(found) is float


@pytest.mark.parametrize(
    ("setting", "value", "near"),
    [
        ("measurement", "centered", "centred"),
        ("measurement", "one-sided", "one_sided"),
        ("measurement", "Frozen", "frozen"),
        ("reference", "lines", "line"),
        ("reference", "weights", "weight"),
        ("reference", "line + wieght", "line\\+weight"),
        ("range_policy", "hold", "held"),
        ("range_policy", "per-vector", "per_vector"),
    ],
)
def test_a_misspelt_name_is_answered_with_the_nearest(setting, value, near):
    refused(f"{setting}: found .*allowed: .*Did you mean '{near}'", **{setting: value})


@pytest.mark.parametrize("setting", ["measurement", "reference", "range_policy"])
@pytest.mark.parametrize("value", ["", 3, True, ["line"], b"line"])
def test_names_are_strings(setting, value):
    refused(f"{setting}: found", **{setting: value})


@pytest.mark.parametrize(
    "reference", ["none+weight", "line+line", "weight+node", "line+", "+", "line+weight+node"]
)
def test_references_that_make_no_pair_are_refused(reference):
    refused("reference: found .*allowed: none, weight, node, line, line", reference=reference)


@pytest.mark.parametrize(
    ("given", "canonical"),
    [("weight+line", "line+weight"), ("node + line", "line+node"), (" line +weight", "line+weight")]
    + [(name, name) for name in REFERENCES],
)
def test_references_come_in_one_order(given, canonical):
    options = checked(reference=given)
    assert options.reference == canonical
    assert options.references == tuple(canonical.split("+"))


@pytest.mark.parametrize("name", ["sweeps", "max_sweeps", "reads"])
@pytest.mark.parametrize("value", [0, -1, 1.5, 2.0, "3", True, math.nan, np.float64(2)])
def test_counts_are_integers_of_one_or_more(name, value):
    refused(f"{name}: found .*allowed: an integer of 1 or more", **{name: value})


@pytest.mark.parametrize("name", ["sweeps", "max_sweeps", "reads"])
def test_numpy_integers_count(name):
    found = vars(checked(**{name: np.int64(3)}))[name]
    assert found == 3
    assert type(found) is int


@pytest.mark.parametrize("tolerance", [0, -1e-3, 1, 2.0, math.nan, math.inf, "1e-3", True])
def test_bad_tolerance(tolerance):
    refused("tolerance: found .*allowed: a number above 0 and below 1", tolerance=tolerance)


def test_sweeps_and_tolerance_exclude_each_other():
    refused("sweeps: found 3 together with tolerance 0.001", sweeps=3, tolerance=1e-3)


@pytest.mark.parametrize("sweeps", [None, 4])
def test_settings_are_plain_and_mean_the_same_again(sweeps):
    options = checked(sweeps=sweeps, reference="weight+line", beta=np.float32(0.5))
    settings = options.as_settings()
    assert json.loads(json.dumps(settings, allow_nan=False)) == settings
    assert Options.checked(**settings, dtype=torch.float64) == options


def test_settings_of_a_gradient_repeat_it(tiny, ideal, error):
    chip = eptsim.Chip(tiny.model, ideal)
    ep = eptsim.EPController(chip, beta=0.02, reference="node", sweeps=3)
    first = ep.gradient(tiny.tokens, tiny.targets)
    second = eptsim.EPController(chip, **first.settings).gradient(tiny.tokens, tiny.targets)
    assert error(second, first) < 1e-13
    assert second.settings == first.settings
