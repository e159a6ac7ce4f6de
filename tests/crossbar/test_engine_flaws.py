"""The whole device layer against a numpy read that is written out stage by stage (conftest.py)."""

import numpy as np
import pytest
import torch

from eptsim.base.table import Table
from eptsim.crossbar.crossbar import Crossbar
from eptsim.crossbar.stages import Position

BOTH = ("forward", "transpose")
MAPPINGS = ("differential", "reference_column", "offset")
SCALINGS = ("array", "tile", "column")
POLICIES = ("fixed", "per_vector", "held")
PLAIN = {f"{d}.{k}_bits": None for d in BOTH for k in ("dac", "adc")}
G = 2e-5  # g_max_s of the cards
NOISE = Table((0.0, 0.3 * G, 1.1 * G), (0.01 * G, 0.06 * G, 0.02 * G))
CURVE = Table((0.0, 0.05, 0.12, 0.3), (0.0, 0.02, 0.1, 0.9))
ERROR = "cell.programming.table"
WIRES = {
    "array.wire_word_ohm": 30.0, "array.wire_bit_ohm": 20.0, "array.driver_ohm": 90.0,
    "array.sense_ohm": 50.0,
}  # fmt: skip
#: One feature at a time, on an otherwise exact array.
FEATURES: dict[str, dict[str, object]] = {
    "nothing": {},
    "spread": {"cell.spread.g_min": 0.05, "cell.spread.g_max": 0.1},
    "spread that crosses": {"cell.g_min_s": 0.8 * G, "cell.spread.g_min": 0.2},
    "polynomial error": {
        "cell.programming.sigma": 0.01, "cell.programming.sigma_linear": 0.1,
        "cell.programming.sigma_quadratic": -0.08,
    },
    "tabulated error": {ERROR: NOISE},
    "verify": {
        "cell.programming.sigma": 0.05, "cell.programming.verify_tolerance": 0.03,
        "cell.programming.verify_rounds": 4, "cell.spread.g_max": 0.1,
    },
    "verify with a table": {ERROR: NOISE, "cell.programming.verify_tolerance": 0.02},
    "retention": {"cell.retention.tau_s": 3e3, "cell.retention.level": 0.4},
    "stretched retention": {"cell.retention.tau_s": 3e3, "cell.retention.stretch": 0.4},
    "compensated drift": {
        "cell.drift.nu": 0.05, "cell.drift.nu_sigma": 0.02,
        "cell.drift.compensation": "reference_read",
    },
    "compensated loss": {
        "cell.retention.tau_s": 3e3, "cell.drift.compensation": "reference_read",
        "cell.stuck.high": 0.1,
    },
    "stuck anywhere": {
        "cell.stuck.low": 0.1, "cell.stuck.high": 0.1, "cell.stuck.random": 0.2,
    },
    "slices": {"cell.levels": 3, "array.slices": 4},
    "slices of pairs of levels": {"cell.levels": 2, "array.slices": 3},
    "clipped": {"array.clip_percentile": 80.0},
    "tile scales": {"array.scaling": "tile"},
    "column scales": {"array.scaling": "column"},
    "clipped columns": {"array.scaling": "column", "array.clip_percentile": 60.0},
    "sqrt noise": {"cell.read_noise.law": "sqrt", "cell.read_noise.sigma": 0.1},
    "tabulated noise": {"cell.read_noise.law": "table", "cell.read_noise.table": NOISE},
    "flicker": {"cell.flicker.sigma": 0.03},
    "sinh": {"array.coding": "amplitude", "cell.iv.law": "sinh", "cell.iv.v0_v": 0.1},
    "cubic": {"array.coding": "amplitude", "cell.iv.law": "cubic", "cell.iv.v0_v": 0.3},
    "curve": {"array.coding": "amplitude", "cell.iv.law": "table", "cell.iv.table": CURVE},
    "pulse width": {"array.coding": "pulse_width", "cell.iv.law": "cubic", "cell.iv.v0_v": 0.3},
    "wander": {f"{d}.offset_drift": 0.1 for d in BOTH},
}


def vectors(rows, width, seed=1, dtype=torch.float64):
    x = torch.randn(rows, width, generator=torch.Generator().manual_seed(seed), dtype=dtype)
    x[rows // 2] = 0.0
    return x * torch.logspace(-2, 1, rows, dtype=dtype)[:, None]


W = vectors(18, 23, seed=2)
AT = Position(5, 11, 0.37)


def pair(array, book, direction, policy, reference=None):
    """The same read by the array and by the book."""
    x = vectors(37, array.shape[direction == "forward"], dtype=array.dtype)
    array.hold_range(direction, 0.9)
    method = array.read if direction == "forward" else array.read_transpose
    got = method(x, range_policy=policy, position=AT, reference=reference)
    zero = None if reference is None else reference.double().numpy()
    want = book.read(direction, x.numpy(), policy, 0.9, AT.read, AT.row, AT.time_s, zero)
    return got.double().numpy(), want


def assert_same(got, want, *, fused):
    if fused:
        np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-10)
    else:  # torch's normals differ in the last digits, so that a few codes flip
        assert np.mean(np.abs(got - want) > 1e-4 * np.abs(want).max()) < 3e-3


def assert_by_the_book(array, w, written, policy, fused):
    book = written(array, w.numpy())
    np.testing.assert_allclose(array.weight().numpy(), book.stored(), rtol=1e-10, atol=1e-11)
    for direction in BOTH:
        assert_same(*pair(array, book, direction, policy), fused=fused)
    counts = array.record.cells, array.record.unverified, array.record.stuck
    assert counts == (book.cells.cells, book.cells.unverified, book.cells.stuck)
    assert array.record.drift_factor == pytest.approx(book.cells.rescale, rel=1e-12)


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("mapping", MAPPINGS)
@pytest.mark.parametrize("scaling", SCALINGS)
@pytest.mark.parametrize("policy", POLICIES)
def test_every_flaw_at_once(deep, written, policy, scaling, mapping, fused):
    array = Crossbar(W, deep(mapping, {"array.scaling": scaling}), seed=4, path="a", fused=fused)
    assert (array.segments("forward"), array.segments("transpose")) == (8, 8)
    assert_by_the_book(array, W, written, policy, fused)
    assert array.record.unverified > 0
    assert array.record.stuck > 0


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("mapping", MAPPINGS)
@pytest.mark.parametrize("feature", FEATURES)
def test_each_feature_alone(ideal, written, feature, mapping, fused):
    changes = {
        "cell.g_max_s": G, "array.mapping": mapping, "array.rows": 9, "array.columns": 4,
        "forward.gain": 0.1, "transpose.gain": 0.1, **FEATURES[feature],
    }  # fmt: skip
    array = Crossbar(W, ideal.override(changes), seed=1, fused=fused)
    assert_by_the_book(array, W, written, "per_vector", fused)


@pytest.mark.parametrize("feature", [k for k in FEATURES if k not in ("curve", "sinh", "cubic")])
@pytest.mark.parametrize("mapping", MAPPINGS)
def test_each_feature_of_the_cells_in_a_bare_matmul(ideal, written, feature, mapping):
    """Digitally combined where no line has a flaw; noise and wander are off that path."""
    changes = {"cell.g_max_s": G, "array.mapping": mapping, **FEATURES[feature]}
    array = Crossbar(W, ideal.override({**changes, "array.rows": 9, "array.columns": 4}), seed=1)
    assert array.stage("forward").exact == (feature not in (
        "flicker", "sqrt noise", "tabulated noise", "wander"
    ))
    assert_by_the_book(array, W, written, "per_vector", fused=True)


@pytest.mark.parametrize("mapping", MAPPINGS)
@pytest.mark.parametrize("scaling", SCALINGS)
@pytest.mark.parametrize("fused", [True, False])
def test_float32_follows_to_rounding(deep, written, scaling, mapping, fused):
    """Without converters, whose codes a rounding may flip."""
    card = deep(mapping, {"array.scaling": scaling, **PLAIN})
    w = W.float()
    array = Crossbar(w, card, seed=4, path="a", fused=fused)
    book = written(array, w.numpy())
    for direction in BOTH:
        got, want = pair(array, book, direction, "per_vector")
        size = np.abs(want).max(axis=1, keepdims=True)
        assert (np.abs(got - want) <= 3e-5 * size + 1e-7).all()


@pytest.mark.parametrize("mapping", MAPPINGS)
@pytest.mark.parametrize("scaling", SCALINGS)
@pytest.mark.parametrize("fused", [True, False])
def test_a_line_reference_leaves_before_the_digital_factors(deep, written, scaling, mapping, fused):
    array = Crossbar(W, deep(mapping, {"array.scaling": scaling}), seed=4, fused=fused)
    book = written(array, W.numpy())
    for direction in BOTH:
        reference = 0.1 * vectors(*array.stage(direction).offset.shape, seed=8)
        assert_same(*pair(array, book, direction, "held", reference), fused=fused)


@pytest.mark.parametrize("shape", [(1, 1), (1, 23), (18, 1), (5, 7), (6, 8), (40, 3)])
@pytest.mark.parametrize("mapping", MAPPINGS)
def test_any_shape(deep, written, shape, mapping):
    w = vectors(*shape, seed=3) + 0.1
    for scaling in SCALINGS:
        array = Crossbar(w, deep(mapping, {"array.scaling": scaling}), seed=6)
        assert_by_the_book(array, w, written, "per_vector", fused=True)


def test_a_group_of_zeros_takes_the_scale_of_the_array(deep, written):
    w = W.clone()
    w[5:10, 7:14] = 0.0  # one tile
    w[3] = 0.0  # one output line
    for scaling in SCALINGS:
        array = Crossbar(w, deep(changes={"array.scaling": scaling}), seed=6)
        assert_by_the_book(array, w, written, "fixed", fused=True)
