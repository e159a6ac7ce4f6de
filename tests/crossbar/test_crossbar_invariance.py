"""The same bits for any batch split, order of calls and number of threads."""

import contextlib
import itertools

import numba
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from eptsim.crossbar.crossbar import Crossbar
from eptsim.crossbar.stages import Position

MAPPINGS = ("differential", "reference_column", "offset")
TILES = (None, 64, 300, 512, 700)


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


def read(array, direction, x, position=None):
    return (array.read if direction == "forward" else array.read_transpose)(x, position=position)


def random_array(data, flawed):
    dtype = data.draw(st.sampled_from([torch.float32, torch.float64]))
    sizes = st.sampled_from([1, 2, 64, 100, 300, 512]) | st.integers(1, 300)
    small = data.draw(sizes)
    large = data.draw(st.sampled_from([1, 512, 1024, 1408]) | st.integers(1, 1500))
    out, inner = (small, large) if data.draw(st.booleans()) else (large, small)
    changes = {
        "array.rows": data.draw(st.sampled_from(TILES)),
        "array.columns": data.draw(st.sampled_from(TILES)),
        "cell.read_noise.law": data.draw(st.sampled_from(["constant", "proportional"])),
    }
    for direction in ("forward", "transpose"):  # without converters the last bit shows
        if data.draw(st.booleans()):
            changes |= {f"{direction}.dac_bits": None, f"{direction}.adc_bits": None}
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 99)))
    w = torch.randn(out, inner, generator=generator, dtype=dtype)
    card = flawed(data.draw(st.sampled_from(MAPPINGS)), changes)
    return w, card, generator


@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_any_split_of_a_batch_gives_the_same_bits(flawed, data):
    w, card, generator = random_array(data, flawed)
    fused = data.draw(st.sampled_from([True, True, False]))
    policy = data.draw(st.sampled_from(["per_vector", "fixed"]))
    arrays = [Crossbar(w, card, seed=3, range_policy=policy, fused=fused) for _ in range(2)]
    direction = data.draw(st.sampled_from(["forward", "transpose"]))
    rows = data.draw(st.integers(1, 300))
    width = w.shape[1] if direction == "forward" else w.shape[0]
    x = torch.randn(rows, width, generator=generator, dtype=w.dtype)
    cuts = data.draw(st.lists(st.integers(0, rows), max_size=4).map(sorted))
    bounds = [0, *cuts, rows]
    with threads(2):
        whole = read(arrays[0], direction, x)
    with threads(data.draw(st.sampled_from([1, 2]))):
        parts = [
            read(arrays[1], direction, x[a:b]) for a, b in itertools.pairwise(bounds)
        ]
        assert torch.equal(torch.cat(parts), whole)
        row = data.draw(st.integers(0, rows - 1))
        alone = read(arrays[1], direction, x[row], Position(0, row))
    assert torch.equal(alone, whole[row])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("fused", [True, False])
def test_row_by_row_on_a_wide_array(flawed, dtype, fused):
    w = torch.randn(257, 1500, dtype=dtype)
    card = flawed("reference_column", {"array.rows": None, "array.columns": None})
    x, d = torch.randn(30, 1500, dtype=dtype), torch.randn(30, 257, dtype=dtype)
    one, other = (Crossbar(w, card, fused=fused) for _ in range(2))
    assert torch.equal(torch.stack([one.read(row) for row in x]), other.read(x))
    one_by_one = torch.stack([one.read_transpose(row) for row in d])
    assert torch.equal(one_by_one, other.read_transpose(d))


@pytest.mark.parametrize("fused", [True, False])
def test_the_exact_read_has_no_batch_either(ideal, fused):
    w = torch.randn(257, 1500, dtype=torch.float64)
    x = torch.randn(60, 1500, dtype=torch.float64)
    array = Crossbar(w, ideal, fused=fused)
    with threads(2):
        whole = array.read(x)
    with threads(1):
        assert torch.equal(torch.stack([array.read(row) for row in x]), whole)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("mapping", MAPPINGS)
def test_threads_and_a_second_chip_of_the_same_seed_change_nothing(flawed, mapping, dtype):
    w = torch.randn(130, 600, dtype=dtype)
    card = flawed(mapping, {"array.rows": 300, "array.columns": None})
    x, d = torch.randn(90, 600, dtype=dtype), torch.randn(90, 130, dtype=dtype)
    results = []
    for count in (1, 2):
        with threads(count):
            array = Crossbar(w, card, seed=8)
            zero = array.zero_reference("transpose", 40)
            results.append((array.read(x), array.read_transpose(d), zero, array.weight()))
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))


def test_the_order_of_the_calls_does_not_matter_where_positions_are_given(flawed):
    w, x, d = torch.randn(9, 12), torch.randn(4, 12), torch.randn(4, 9)
    array, other = Crossbar(w, flawed()), Crossbar(w, flawed())
    first = array.read(x, position=Position(2, 0)), array.read_transpose(d, position=Position(1, 3))
    other.read(x)
    later = other.read_transpose(d, position=Position(1, 3)), other.read(x, position=Position(2, 0))
    assert torch.equal(first[0], later[1])
    assert torch.equal(first[1], later[0])


def test_a_refused_read_uses_no_place_in_the_stream(flawed):
    w, x = torch.randn(9, 12), torch.randn(4, 12)
    array, other = Crossbar(w, flawed()), Crossbar(w, flawed())
    with pytest.raises(ValueError, match="NaN"):
        array.read(torch.full((3, 12), torch.nan))
    assert torch.equal(array.read(x), other.read(x))


def test_global_generators_are_left_alone(flawed):
    import numpy as np

    state, numpy_state = torch.random.get_rng_state(), np.random.get_state()[1].copy()
    array = Crossbar(torch.ones(9, 12), flawed())
    array.read(torch.ones(3, 12))
    array.read_transpose(torch.ones(3, 9))
    array.zero_reference("forward", 3)
    assert torch.equal(state, torch.random.get_rng_state())
    np.testing.assert_array_equal(numpy_state, np.random.get_state()[1])
