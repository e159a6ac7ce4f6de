"""The range that each policy gives a read."""

import pytest
import torch

from eptsim.base.errors import InputError
from eptsim.crossbar.crossbar import Crossbar
from eptsim.crossbar.ranges import shared_range
from eptsim.crossbar.stages import smallest_range


def plan(card, changes):
    array = Crossbar(torch.eye(3), card.override({"forward.dac_bits": 4, **changes}))
    return array._plans["forward"]


@pytest.mark.parametrize(
    ("limit", "policy", "held", "want"),
    [
        (None, "per_vector", None, None),
        (0.5, "per_vector", 3.0, None),
        (None, "fixed", 3.0, 1.0),
        (0.5, "fixed", None, 0.5),
        (None, "held", 3.0, 3.0),
        (0.5, "held", 3.0, 0.5),
        (None, "held", 1e-38, smallest_range(torch.float32)),
    ],
)
def test_policies(ideal, limit, policy, held, want):
    limited = plan(ideal, {"forward.input_range": limit})
    assert shared_range(limited, policy, held, "forward") == want


def test_an_exact_read_needs_no_range(ideal):
    exact = Crossbar(torch.eye(3), ideal)._plans["forward"]
    assert shared_range(exact, "held", None, "forward") is None


def test_a_position_is_one(ideal):
    array = Crossbar(torch.eye(3), ideal.override({"forward.line_noise": 0.1}))
    with pytest.raises(InputError, match="position: found int, allowed"):
        array.read(torch.ones(3), position=3)
    with pytest.raises(InputError, match="position: found tuple, allowed"):
        array.zero_reference("forward", 1, (0, 0))


def test_refusals(ideal):
    with pytest.raises(InputError, match="array 'crossbar' has no forward range yet"):
        shared_range(plan(ideal, {}), "held", None, "forward")
    with pytest.raises(InputError, match="range_policy: found 'batch'"):
        shared_range(plan(ideal, {}), "batch", None, "forward")


def test_the_peak_is_what_the_converters_drive(ideal):
    """Scales of output lines act before a transposed read's converters: it must not waste codes."""
    w = torch.tensor([[4.0, 1.0], [0.5, 0.25]])
    d = torch.tensor([[1.0, 6.0], [-2.0, 0.0]])
    plain = Crossbar(w, ideal.override({"transpose.dac_bits": 8}))
    scaled = Crossbar(w, ideal.override({"transpose.dac_bits": 8, "array.scaling": "column"}))
    assert (plain.peak("transpose", d), scaled.peak("transpose", d)) == (6.0, 2.0)
    assert plain.peak("forward", d) == scaled.peak("forward", d) == 6.0
    scaled.hold_range("transpose", scaled.peak("transpose", d))
    got = scaled.read_transpose(d, range_policy="held")
    # half a step of 7 bits over 2, times at most the sum of the scaled weights
    assert (got - d @ w).abs().max() <= 0.5 * 2 / 127 * 8
