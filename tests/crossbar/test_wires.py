"""Wires against circuits solved by independent programs, and against a nodal solve written here."""

import json
import math
from functools import partial
from pathlib import Path

import numba
import numpy as np
import pytest
import scipy.sparse
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse.linalg import spsolve

import eptsim
from eptsim.base.errors import InputError
from eptsim.crossbar.wire_ladder import ladder_conductance
from eptsim.crossbar.wire_plan import plan_of

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "wires.json").read_text())


def nodal_solve(g, r_word, r_bit, driver=0.0, sense=0.0):
    """Effective conductances by one sparse nodal matrix; nodes joined by 0 ohm are one node."""
    rows, columns = g.shape
    nodes, wires = {}, []
    fixed = [("source", i) for i in range(rows)] + ["ground"]

    def find(node):
        while node in nodes:
            node = nodes[node]
        return node

    def wire(a, b, r):
        if r == 0:
            a, b = sorted((find(a), find(b)), key=fixed.__contains__)
            if a != b:
                nodes[a] = b
        else:
            wires.append((a, b, 1 / r))

    for i in range(rows):
        for j in range(columns):
            before = ("w", i, j - 1) if j else ("source", i)
            wire(before, ("w", i, j), r_word + (0 if j else driver))
            after = ("b", i + 1, j) if i + 1 < rows else "ground"
            wire(("b", i, j), after, r_bit + (0 if i + 1 < rows else sense))
            wires.append((("w", i, j), ("b", i, j), g[i, j]))
    free = sorted({find(n) for w in wires for n in w[:2]} - set(fixed), key=str)
    index = {n: k for k, n in enumerate([*free, *fixed])}
    y = scipy.sparse.lil_array((len(index), len(index)))
    for a, b, conductance in wires:
        p, q = index[find(a)], index[find(b)]
        y[p, p] += conductance
        y[q, q] += conductance
        y[p, q] -= conductance
        y[q, p] -= conductance
    y, n = y.tocsr(), len(free)
    v = np.vstack([np.zeros((n, rows)), np.eye(rows), np.zeros((1, rows))])
    if n:
        v[:n] = np.reshape(spsolve(y[:n, :n].tocsc(), -(y[:n, n:] @ v[n:])), (n, rows))
    cells = np.zeros((rows, columns))
    for j in range(columns):
        for i in range(rows):
            w, b = index[find(("w", i, j))], index[find(("b", i, j))]
            cells[:, j] += g[i, j] * (v[w] - v[b])
    return cells


@pytest.mark.parametrize("case", GOLDEN["random"], ids=lambda c: c["name"])
def test_golden_circuits(case):
    matrix = eptsim.effective_conductance(
        np.array(case["g_s"]), case["r_word_ohm"], case["r_bit_ohm"]
    )
    got = np.array(case["v_v"]) @ matrix
    want = np.array(case["i_a"])
    assert np.abs(got - want).max() <= 1e-10 * np.abs(want).max()


def test_golden_published_circuit_and_its_transpose():
    case = GOLDEN["circuit_5x4"]
    g = 1 / np.array(case["r_ohm"], dtype=float)
    drive = np.array(case["v_v"], dtype=float)
    np.testing.assert_allclose(
        drive @ eptsim.effective_conductance(g, 0.0, 0.0), case["no_wire"], atol=1e-10
    )
    wired = case["wire_1_2"]
    matrix = eptsim.effective_conductance(g, wired["r_word_ohm"], wired["r_bit_ohm"])
    np.testing.assert_allclose(drive @ matrix, wired["i_a"], atol=1e-10)
    # published to 8 decimals
    np.testing.assert_allclose(
        matrix @ np.ones(4), case["transpose_unit_drive_1_2"], atol=6e-9
    )


# beyond, the nodal matrix loses digits: it holds 1 / r beside g
OHMS = st.one_of(st.just(0.0), st.floats(0.5, 2e3))


def some_tile(seed, rows, columns):
    """Conductances with open cells and, now and then, an open row, an open column or nothing."""
    generator = np.random.default_rng(seed)
    g = generator.uniform(0, 10.0 ** generator.uniform(-6, -2), (rows, columns))
    g[generator.random(g.shape) < 0.1] = 0.0
    g[generator.random(rows) < 0.1] = 0.0
    g[:, generator.random(columns) < 0.1] = 0.0
    return g


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 19), st.integers(1, 19), OHMS, OHMS, OHMS, OHMS, st.integers(0, 10**6)
)
def test_against_a_nodal_solve(rows, columns, r_word, r_bit, driver, sense, seed):
    g = some_tile(seed, rows, columns)
    matrix = eptsim.effective_conductance(g, r_word, r_bit, driver_ohm=driver, sense_ohm=sense)
    want = nodal_solve(g, r_word, r_bit, driver, sense)
    assert np.abs(matrix - want).max() <= 1e-10 * np.abs(want).max()
    assert matrix.min() >= 0


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 40), st.integers(1, 40), OHMS, OHMS, OHMS, OHMS, st.integers(0, 10**6)
)
def test_reciprocity(rows, columns, r_word, r_bit, driver, sense, seed):
    """Driven at the sensing ends: the same network seen from the other side, corner to corner."""
    g = some_tile(seed, rows, columns)
    matrix = eptsim.effective_conductance(g, r_word, r_bit, driver_ohm=driver, sense_ohm=sense)
    turned = eptsim.effective_conductance(
        g.T[::-1, ::-1].copy(), r_bit, r_word, driver_ohm=sense, sense_ohm=driver
    )
    assert np.abs(turned - matrix.T[::-1, ::-1]).max() <= 1e-11 * matrix.max()


@pytest.mark.parametrize("shape", [(1, 1), (1, 50), (50, 1), (8, 8), (33, 7), (40, 65), (129, 30)])
def test_shapes_with_every_resistance(shape):
    g = some_tile(7, *shape)
    got = eptsim.effective_conductance(g, 2.0, 3.0, driver_ohm=50.0, sense_ohm=20.0)
    want = nodal_solve(g, 2.0, 3.0, 50.0, 20.0)
    assert np.abs(got - want).max() <= 1e-11 * want.max()


def test_stuck_open_rows_and_columns_carry_nothing():
    g = np.full((20, 17), 1e-4)
    g[[3, 4], :] = 0.0
    g[:, 9] = 0.0
    got = eptsim.effective_conductance(g, 10.0, 10.0, driver_ohm=5.0, sense_ohm=5.0)
    assert np.array_equal(got == 0, g == 0)
    nothing = eptsim.effective_conductance(0 * g, 10.0, 10.0)
    assert np.array_equal(nothing, np.zeros_like(g)) and not np.signbit(nothing).any()


@pytest.mark.parametrize("r", [1e6, 1e9, 1e15, 1e30, 1e60])
@pytest.mark.parametrize("which", range(4))
def test_nothing_passes_at_large_resistances(r, which):
    ohms = [1.0, 1.0, 0.0, 0.0]
    ohms[which] = r
    g = np.random.default_rng(0).uniform(1e-6, 1e-4, (30, 20))
    got = eptsim.effective_conductance(g, *ohms[:2], driver_ohm=ohms[2], sense_ohm=ohms[3])
    assert np.isfinite(got).all() and got.min() >= 0
    line = got.sum(axis=1 if which in (0, 2) else 0)  # nearly all of it over one line
    assert line.max() <= 1.0 / r * (1 + 1e-9) + 1e-15 * g.max()


def test_a_driver_alone_divides_the_voltage():
    g = np.random.default_rng(1).uniform(1e-6, 1e-4, (9, 12))
    got = eptsim.effective_conductance(g, 0.0, 0.0, driver_ohm=300.0)
    want = g / (1 + 300.0 * g.sum(axis=1, keepdims=True))
    np.testing.assert_allclose(got, want, rtol=1e-13)
    got = eptsim.effective_conductance(g, 0.0, 0.0, sense_ohm=300.0)
    want = g / (1 + 300.0 * g.sum(axis=0, keepdims=True))
    np.testing.assert_allclose(got, want, rtol=1e-13)


def test_no_resistance_is_the_tile_itself():
    g = torch.rand(3, 70, 45, dtype=torch.float64) * 1e-4
    assert torch.equal(eptsim.effective_conductance(g, 0.0, 0.0), g)


@pytest.mark.parametrize("shape", [(5, 9), (64, 40), (100, 100)])
def test_bits_of_a_tile_do_not_depend_on_the_batch_or_the_threads(shape):
    g = torch.rand(6, *shape, dtype=torch.float64) * 1e-4
    solve = partial(eptsim.effective_conductance, r_word_ohm=1.0, r_bit_ohm=2.0, driver_ohm=30.0)
    together = solve(g)
    assert torch.equal(together, torch.stack([solve(tile) for tile in g]))
    assert torch.equal(together.reshape(2, 3, *shape), solve(g.reshape(2, 3, *shape)))
    threads = numba.get_num_threads()
    numba.set_num_threads(numba.config.NUMBA_NUM_THREADS)
    try:
        assert torch.equal(together, solve(g))
    finally:
        numba.set_num_threads(threads)


def test_memory_of_a_batch():
    """Beside what goes in and comes out, a thread needs under 30 MB for tiles of 256 x 256."""
    _, sizes = plan_of(256, 256)
    stack, *scratch, _ = sizes
    assert 8 * (stack + sum(scratch) + 2 * 256**2) < 30e6


def test_types_and_devices_are_kept():
    g = np.random.default_rng(0).uniform(0, 1e-4, (4, 6))
    want = eptsim.effective_conductance(g, 5.0, 6.0)
    assert isinstance(want, np.ndarray)
    turned = eptsim.effective_conductance(np.asfortranarray(g), 5.0, 6.0)
    assert np.array_equal(turned, want)
    single = torch.from_numpy(g).float().requires_grad_()
    got = eptsim.effective_conductance(single, 5, np.float64(6.0))
    assert isinstance(got, torch.Tensor) and got.dtype == torch.float64
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-6)


def test_limits():
    g = torch.rand(3, 7, 5, dtype=torch.float64) * 1e-4
    tiny = eptsim.effective_conductance(g, 1e-9, 1e-9)
    assert torch.allclose(tiny, g, rtol=1e-9, atol=0)
    half = eptsim.effective_conductance(g, 1e-9, 50.0)
    assert torch.allclose(eptsim.effective_conductance(g, 0.0, 50.0), half, rtol=1e-6)
    blocked = eptsim.effective_conductance(g, 1e15, 1e15)
    assert bool(torch.isfinite(blocked).all()) and float(blocked.abs().max()) < 1e-12


BAD_CONDUCTANCES = {
    "negative": (np.array([[-1.0]]), "negative"),
    "nan": (np.array([[np.nan]]), "non-finite"),
    "infinite": (torch.tensor([[math.inf]]), "non-finite"),
    "one dimension": (np.ones(3), "shape"),
    "no rows": (np.ones((0, 3)), "shape"),
    "no tiles": (torch.ones(0, 3, 3), "shape"),
    "list": ([[1.0]], "list"),
    "none": (None, "NoneType"),
    "complex": (np.ones((2, 2), complex), "complex128"),
    "bool": (torch.ones(2, 2, dtype=torch.bool), "bool"),
    "text": (np.array([["a"]]), "<U1"),
}


@pytest.mark.parametrize("function", [eptsim.effective_conductance, ladder_conductance])
@pytest.mark.parametrize("case", BAD_CONDUCTANCES)
def test_bad_conductances(function, case):
    g, match = BAD_CONDUCTANCES[case]
    with pytest.raises(InputError, match=f"{function.__name__}: g_s: found .*{match}.*allowed"):
        function(g, 1.0, 1.0)


@pytest.mark.parametrize("function", [eptsim.effective_conductance, ladder_conductance])
@pytest.mark.parametrize("name", ["r_word_ohm", "r_bit_ohm", "driver_ohm", "sense_ohm"])
@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf, "1", None, True, 1j, np.ones(2)])
def test_bad_resistances(function, name, value):
    ohms = {"r_word_ohm": 1.0, "r_bit_ohm": 1.0, name: value}
    with pytest.raises(InputError, match=f"{function.__name__}: {name}: found .*allowed: 0 or"):
        function(np.ones((2, 2)), **ohms)


@pytest.mark.parametrize("function", [eptsim.effective_conductance, ladder_conductance])
def test_what_overflows_is_refused_or_right(function):
    for size_s, r_ohm in ((1e308, 1e308), (1e308, 1.0), (1e-4, 1e308), (1e200, 1e200)):
        try:
            got = function(np.full((20, 20), size_s), r_ohm, r_ohm, driver_ohm=r_ohm)
        except InputError as error:
            assert "float64" in str(error)
        else:
            assert np.isfinite(got).all() and got.sum(axis=1).max() <= 1 / r_ohm


@pytest.mark.parametrize(
    ("g", "message"),
    [
        (torch.eye(3).to_sparse(), "found torch.sparse_coo on cpu"),
        (torch.ones(3, 3, device="meta"), "on meta"),
        (torch.ones(3, 3, dtype=torch.complex64), "found torch.complex64, allowed: real"),
    ],
)
def test_tensors_without_plain_numbers_are_refused(g, message):
    with pytest.raises(InputError, match=message):
        eptsim.effective_conductance(g, 1.0, 1.0)


def test_short_floats_are_taken_as_they_are():
    g = torch.rand(4, 5, generator=torch.Generator().manual_seed(0)) * 1e-4
    for dtype in (torch.bfloat16, torch.float16):
        short = g.to(dtype)
        want = eptsim.effective_conductance(short.double(), 1.0, 2.0)
        assert torch.equal(eptsim.effective_conductance(short, 1.0, 2.0), want)


def test_an_integer_beyond_any_float_is_refused():
    with pytest.raises(InputError, match="r_word_ohm: found 1000"):
        eptsim.effective_conductance(torch.ones(2, 2), 10**400, 1.0)
