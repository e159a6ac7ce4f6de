"""The whole device layer at once: the same bits however it is read, finite whatever it holds."""

import contextlib
import itertools

import numba
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from eptsim.base.errors import InputError
from eptsim.base.table import Table
from eptsim.crossbar.crossbar import Crossbar
from eptsim.crossbar.stages import Position

BOTH = ("forward", "transpose")
MAPPINGS = ("differential", "reference_column", "offset")
WIRES = {
    "array.wire_word_ohm": 20.0, "array.wire_bit_ohm": 10.0, "array.driver_ohm": 100.0,
    "array.sense_ohm": 50.0,
}  # fmt: skip
QUIET = {"cell.read_noise.law": "none", "cell.read_noise.sigma": 0.0}
QUIET |= {f"{d}.line_noise": 0.0 for d in BOTH}
STRAIGHT = {"array.coding": "pulse_width"}
STRAIGHT |= {f"{d}.{k}": None for d in BOTH for k in ("dac_bits", "adc_bits", "input_range")}
STRAIGHT |= {f"{d}.{k}": 0.0 for d in BOTH for k in ("offset", "gain", "offset_drift")}
STRAIGHT |= {f"{d}.output_range": 1e6 for d in BOTH}


@contextlib.contextmanager
def threads(count):
    before = torch.get_num_threads(), numba.get_num_threads()
    torch.set_num_threads(count)
    numba.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before[0])
        numba.set_num_threads(before[1])


def randn(*shape, seed=0, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def read(array, direction, x, position=None):
    return (array.read if direction == "forward" else array.read_transpose)(x, position=position)


def draw_changes(data):
    """A random part of the device layer."""
    changes = {
        "array.rows": data.draw(st.none() | st.integers(1, 40)),
        "array.columns": data.draw(st.none() | st.integers(1, 40)),
        "array.scaling": data.draw(st.sampled_from(["array", "tile", "column"])),
        "array.slices": data.draw(st.integers(1, 3)),
        "array.clip_percentile": data.draw(st.none() | st.sampled_from([50.0, 99.0])),
        "cell.read_noise.law": data.draw(st.sampled_from(["constant", "proportional", "sqrt"])),
        "cell.flicker.sigma": data.draw(st.sampled_from([0.0, 0.01])),
    }
    if data.draw(st.booleans()):
        changes |= WIRES
        if data.draw(st.booleans()):
            changes["array.wire_model"] = "ladder"
    for d in BOTH:  # without converters the last bit shows
        if data.draw(st.booleans()):
            changes |= {f"{d}.dac_bits": None, f"{d}.adc_bits": None}
    return changes


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_any_split_of_a_batch_gives_the_same_bits(deep, data):
    dtype = data.draw(st.sampled_from([torch.float32, torch.float64]))
    out, inner = data.draw(st.integers(1, 90)), data.draw(st.integers(1, 90))
    w = randn(out, inner, seed=data.draw(st.integers(0, 99)), dtype=dtype)
    card = deep(data.draw(st.sampled_from(MAPPINGS)), draw_changes(data))
    fused = data.draw(st.booleans())
    arrays = [Crossbar(w, card, seed=3, fused=fused) for _ in range(2)]
    for array in arrays:
        array.time_s = 0.25
        array.calibrate("forward", 2)
    direction = data.draw(st.sampled_from(BOTH))
    rows = data.draw(st.integers(1, 60))
    x = randn(rows, inner if direction == "forward" else out, seed=1, dtype=dtype)
    bounds = [0, *data.draw(st.lists(st.integers(0, rows), max_size=3).map(sorted)), rows]
    start = arrays[0]._next_row[direction]
    with threads(2):
        whole = read(arrays[0], direction, x)
    parts = [read(arrays[1], direction, x[a:b]) for a, b in itertools.pairwise(bounds)]
    assert torch.equal(torch.cat(parts), whole)
    row = data.draw(st.integers(0, rows - 1))
    alone = read(arrays[1], direction, x[row], Position(0, start + row, 0.25))
    assert torch.equal(alone, whole[row])


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_both_paths_agree(deep, data):
    """Noise-free and without converters to rounding; else but for a few codes."""
    dtype = data.draw(st.sampled_from([torch.float32, torch.float64]))
    w = randn(data.draw(st.integers(1, 30)), data.draw(st.integers(1, 30)), dtype=dtype)
    quiet = data.draw(st.booleans())
    plain = {f"{d}.{k}": None for d in BOTH for k in ("dac_bits", "adc_bits")}
    changes = {**draw_changes(data), **(plain | QUIET if quiet else {})}
    card = deep(data.draw(st.sampled_from(MAPPINGS)), changes)
    one, other = (Crossbar(w, card, seed=2, fused=fused) for fused in (True, False))
    assert torch.equal(one.weight(), other.weight())
    for direction in BOTH:
        x = randn(24, w.shape[1 if direction == "forward" else 0], seed=4, dtype=dtype)
        a, b = (read(array, direction, x, Position(1, 2, 0.3)) for array in (one, other))
        if quiet:
            rtol = 1e-12 if dtype == torch.float64 else 2e-5
            torch.testing.assert_close(a, b, rtol=rtol, atol=rtol * float(a.abs().max()))
        else:
            assert ((a - b).abs() > 1e-3 * a.abs().max()).double().mean() < 0.02


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_the_transposed_read_is_the_adjoint(deep, data):
    w = randn(data.draw(st.integers(1, 40)), data.draw(st.integers(1, 40)))
    changes = {**draw_changes(data), **QUIET, **STRAIGHT}
    card = deep(data.draw(st.sampled_from(MAPPINGS)), changes)
    array = Crossbar(w, card, seed=5, fused=data.draw(st.booleans()))
    if data.draw(st.booleans()):  # moved cells are no exception
        held = array.conductances()
        held.cells[:] *= 0.7
        array.set_conductances(held)
    x, d = randn(8, w.shape[1], seed=1), randn(8, w.shape[0], seed=2)
    at = Position(0, 0, data.draw(st.sampled_from([0.0, 0.37, 1e6])))
    left = (d * array.read(x, position=at)).sum(dim=1)
    right = (array.read_transpose(d, position=at) * x).sum(dim=1)
    size = (d.abs() @ array.weight().abs() * x.abs()).sum(dim=1) + 1e-6
    assert ((left - right).abs() <= 1e-13 * size).all()


def everything(array):
    at = Position(2, 5, 0.4)
    out, inner = array.shape
    x, d = randn(6, inner, dtype=array.dtype), randn(6, out, dtype=array.dtype)
    held = array.conductances()
    return [
        array.weight(), array.read(x, position=at), array.read_transpose(d, position=at),
        array.zero_reference("transpose", 3, at), torch.from_numpy(held.cells),
    ]  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("mapping", MAPPINGS)
def test_one_seed_and_path_make_one_chip(deep, mapping, dtype):
    w = randn(18, 23, dtype=dtype)
    card = deep(mapping, WIRES)
    results = []
    for count in (1, 2):
        with threads(count):
            results.append(everything(Crossbar(w, card, seed=8, path="a")))
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))
    for seed, path in ((9, "a"), (8, "b")):
        other = everything(Crossbar(w, card, seed=seed, path=path))
        assert not any(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


def test_chips_of_other_seeds_and_paths_are_independent(deep):
    """Errors of what is stored: correlation below 4.5 standard errors, 1 / sqrt(n)."""
    w = randn(100, 120)
    same = {  # what is the same on every chip
        "cell.levels": None, "array.slices": 1, "array.clip_percentile": None,
        "cell.retention.tau_s": None, "cell.drift.nu": 0.0, "cell.stuck.low": 0.0,
        "cell.stuck.high": 0.0, "cell.stuck.random": 0.0, "cell.g_min_s": 8e-6,
        "cell.spread.g_min": 0.0, "cell.spread.g_max": 0.0, "cell.retention.stretch": 1.0,
    }  # fmt: skip
    errors = []
    for seed, path in ((0, "a"), (1, "a"), (0, "b")):
        array = Crossbar(w, deep("differential", same), seed=seed, path=path)
        errors.append((array.weight() - w).flatten().numpy())
    assert np.abs(np.corrcoef(errors) - np.eye(3)).max() < 4.5 / w.numel() ** 0.5


def test_global_generators_are_left_alone(deep):
    state, numpy_state = torch.random.get_rng_state(), np.random.get_state()[1].copy()
    array = Crossbar(torch.ones(9, 12), deep("reference_column", WIRES))
    everything(array)
    array.set_conductances(array.conductances())
    array.refresh_wires()
    array.wires_error(2)
    array.calibrate("forward", 3)
    array.calibrate_range("forward", torch.ones(3, 12), 90.0)
    assert torch.equal(state, torch.random.get_rng_state())
    np.testing.assert_array_equal(numpy_state, np.random.get_state()[1])


def extreme(data, changes):
    """Random entries far from any device."""
    pick = {
        "cell.spread.g_min": [0.0, 1e-20, 1.0], "cell.spread.g_max": [0.0, 1.0],
        "cell.programming.sigma_linear": [-10.0, 0.0, 10.0],
        "cell.programming.sigma_quadratic": [-10.0, 10.0],
        "cell.retention.tau_s": [1e-300, 1.0, 1e15], "cell.retention.stretch": [1e-9, 1.0],
        "cell.retention.level": [0.0, 1.0], "cell.drift.time_s": [20.0, 1e12],
        "cell.stuck.random": [0.0, 0.9], "cell.flicker.sigma": [1e-30, 1.0],
        "cell.flicker.fastest_s": [1e-300, 1e3], "cell.iv.v0_v": [1e-6, 1e6],
        "array.read_voltage_v": [1e-6, 100.0], "array.clip_percentile": [1e-9, 50.0, None],
        "cell.g_min_s": [0.0, 1.9999e-5],
    }  # fmt: skip
    changes |= {key: data.draw(st.sampled_from(values)) for key, values in pick.items()}
    for key in WIRES:
        changes[key] = data.draw(st.sampled_from([None, 0.0, 1e-12, 1.0, 1e9]))
    for d in BOTH:
        changes[f"{d}.offset_drift"] = data.draw(st.sampled_from([0.0, 1e-30, 1.0]))
        changes[f"{d}.offset_time_s"] = data.draw(st.sampled_from([1e-300, 1e12]))
    if data.draw(st.booleans()):
        changes["cell.read_noise.law"] = "table"
        changes["cell.read_noise.sigma"] = 0.0
        changes["cell.read_noise.table"] = Table((0.0, 2e-5), (0.0, data.draw(
            st.sampled_from([1e-30, 1e-5, 1.0])
        )))
    return changes


@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_extreme_cards_are_finite_or_refused(deep, data):
    dtype = data.draw(st.sampled_from([torch.float32, torch.float64]))
    w = randn(data.draw(st.integers(1, 9)), data.draw(st.integers(1, 9)), dtype=dtype)
    w *= data.draw(st.sampled_from([0.0, 1e-30, 1.0, 1e30]))
    changes = extreme(data, draw_changes(data))
    try:
        card = deep(data.draw(st.sampled_from(MAPPINGS)), changes)
        array = Crossbar(w, card, fused=data.draw(st.booleans()))
    except InputError as error:
        assert "found" in str(error)
        return
    assert torch.isfinite(array.weight()).all()
    record = array.record
    assert np.isfinite([record.largest_error, record.clipped, record.drift_factor]).all()
    assert not np.isnan(record.error)
    time_s = data.draw(st.sampled_from([0.0, 1e-300, 1.0, 1e12]))
    for direction in BOTH:
        x = randn(3, w.shape[1 if direction == "forward" else 0], dtype=dtype)
        try:
            y = read(array, direction, x, Position(0, 0, time_s))
        except InputError as error:
            assert "found" in str(error)
            continue
        assert torch.isfinite(y).all()
        assert torch.isfinite(array.zero_reference(direction, 2, Position(0, 0, time_s))).all()
    assert np.isfinite(array.wires_error(1))
