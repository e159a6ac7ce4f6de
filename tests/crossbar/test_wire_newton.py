"""Wires and nonlinear cells together: limits, Kirchhoff's laws, speed of convergence, refusals."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eptsim.base.errors import InputError, SettleError
from eptsim.cell import iv
from eptsim.crossbar.wire_newton import solve_tile
from eptsim.crossbar.wires import effective_conductance

OHMS = {"r_word_ohm": 3.0, "r_bit_ohm": 2.0, "driver_ohm": 40.0, "sense_ohm": 25.0}
CASES = {
    "all": OHMS,
    "segments": OHMS | {"driver_ohm": 0.0, "sense_ohm": 0.0},
    "terminals": OHMS | {"r_word_ohm": 0.0, "r_bit_ohm": 0.0},
    "word": {"r_word_ohm": 3.0, "r_bit_ohm": 0.0},
    "bit and driver": {"r_word_ohm": 0.0, "r_bit_ohm": 2.0, "driver_ohm": 40.0},
    "sense": {"r_word_ohm": 0.0, "r_bit_ohm": 0.0, "sense_ohm": 25.0},
    "tiny": {"r_word_ohm": 1e-9, "r_bit_ohm": 1e-9},
    "large": {"r_word_ohm": 1e5, "r_bit_ohm": 1e5},
}


def linear(u):
    return u


def curves(v0_v, law="sinh"):
    return (
        lambda u: iv.effective_voltage_v(u, law, v0_v), lambda u: iv.derivative(u, law, v0_v)
    )  # fmt: skip


def tile(rows=12, columns=9, seed=0):
    generator = np.random.default_rng(seed)
    g = generator.uniform(1e-6, 1e-4, (rows, columns))
    g[generator.random(g.shape) < 0.1] = 0.0
    return g, generator.normal(size=rows)


def solved(g, v, current, derivative, **given):
    ohms = OHMS | given
    return solve_tile(g, v, ohms.pop("r_word_ohm"), ohms.pop("r_bit_ohm"), current, derivative,
                      **ohms)  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_linear_cell_gives_the_linear_answer(case):
    g, v = tile()
    got = solve_tile(g, v, **CASES[case], current=linear, derivative=np.ones_like)
    want = v @ effective_conductance(g, **CASES[case])
    assert np.abs(got.currents_a - want).max() <= 1e-10 * np.abs(want).max()
    assert got.iterations <= 2


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 10**6))
def test_any_shape(rows, columns, seed):
    g, v = tile(rows, columns, seed)
    got = solved(g, v, linear, np.ones_like)
    want = v @ effective_conductance(g, **OHMS)
    assert np.abs(got.currents_a - want).max() <= 1e-10 * max(np.abs(want).max(), 1e-300)


@pytest.mark.parametrize("law", ["sinh", "cubic"])
def test_the_linear_limit_is_reached_in_second_order(law):
    g, v = tile()
    want = v @ effective_conductance(g, **OHMS)
    v0_v = np.array([30.0, 100.0, 300.0])
    off = [np.abs(solved(g, v, *curves(v0, law)).currents_a - want).max() for v0 in v0_v]
    slope = np.diff(np.log(off)) / np.diff(np.log(v0_v))
    assert np.allclose(slope, -2.0, atol=0.02)


@pytest.mark.parametrize("law", ["sinh", "cubic"])
@pytest.mark.parametrize("case", ["all", "segments"])
def test_kirchhoff(case, law):
    """The current through every segment, from node voltages, is what comes in less what goes."""
    g, v = tile()
    ohms = {"driver_ohm": 0.0, "sense_ohm": 0.0} | CASES[case]
    current, derivative = curves(0.3, law)
    got = solve_tile(g, v, **ohms, current=current, derivative=derivative, tolerance=1e-13)
    i = g * current(got.cell_voltages_v)
    word, bit = np.empty_like(i), np.empty_like(i)
    rows, columns = g.shape
    for row in range(rows):
        at = v[row]
        for column in range(columns):
            r = ohms["r_word_ohm"] + (0 if column else ohms["driver_ohm"])
            at -= r * i[row, column:].sum()
            word[row, column] = at
    for column in range(columns):
        at = 0.0
        for row in range(rows - 1, -1, -1):
            r = ohms["r_bit_ohm"] + (0 if row < rows - 1 else ohms["sense_ohm"])
            at += r * i[: row + 1, column].sum()
            bit[row, column] = at
    np.testing.assert_allclose(word - bit, got.cell_voltages_v, atol=1e-12)
    np.testing.assert_allclose(got.currents_a, i.sum(axis=0), rtol=1e-14)
    ends = bit[-1] / (ohms["r_bit_ohm"] + ohms["sense_ohm"])
    np.testing.assert_allclose(ends, got.currents_a, rtol=1e-9, atol=1e-15)


def test_convergence_is_quadratic():
    g, v = tile()
    current, derivative = curves(0.4)
    best = solved(g, v, current, derivative, tolerance=1e-14).cell_voltages_v
    errors = []
    for steps in range(2, 8):
        tolerance = 1e-14
        seen = []

        def record(u, seen=seen):
            seen.append(u.copy())
            return derivative(u)

        with pytest.raises(SettleError):
            solved(g, v, current, record, tolerance=1e-300, max_iterations=steps)
        errors.append(np.abs(seen[-1] - best).max())
        if errors[-1] < tolerance:
            break
    errors = [e for e in errors if 1e-13 < e < 1e-1]
    assert len(errors) >= 3
    order = np.diff(np.log(errors))
    assert (order[1:] / order[:-1] > 1.7).all()


@pytest.mark.parametrize("law", ["sinh", "cubic"])
def test_no_resistance(law):
    g, v = tile()
    current, derivative = curves(0.2, law)
    got = solve_tile(g, v, 0.0, 0.0, current, derivative)
    np.testing.assert_allclose(got.currents_a, current(v) @ g, rtol=1e-13)
    assert np.array_equal(got.cell_voltages_v, np.repeat(v[:, None], g.shape[1], axis=1))


@pytest.mark.parametrize("v0_v", [0.01, 0.05, 0.2])
def test_a_hard_drive_converges(v0_v):
    """Up to sinh(300), where the linear answer overflows what follows."""
    g, v = tile(seed=3)
    got = solved(g, v, *curves(v0_v))
    assert got.residual <= 1e-10 and np.isfinite(got.currents_a).all()
    assert np.abs(got.cell_voltages_v).max() <= np.abs(v).max() * (1 + 1e-9)


def test_no_drive_and_open_cells():
    g, v = tile()
    got = solved(g, 0 * v, *curves(0.2))
    assert not got.currents_a.any() and got.iterations == 0 and got.residual == 0.0
    assert not solved(0 * g, v, *curves(0.2)).currents_a.any()


def test_steps_run_out():
    with pytest.raises(SettleError, match="after 1 Newton steps, allowed:"):
        solved(*tile(), *curves(0.1), max_iterations=1)


def test_no_step_helps():
    with pytest.raises(SettleError, match="no step"):
        solved(*tile(), lambda u: 1e6 * np.sign(u), np.ones_like)


BAD = {
    "batch": ({"g_s": np.ones((1, 2, 3))}, "g_s: found shape"),
    "negative": ({"g_s": -np.ones((2, 3))}, "g_s: found a negative"),
    "list": ({"g_s": [[1.0]]}, "g_s: found list"),
    "drives": ({"v_in_v": np.ones(3)}, "v_in_v: found shape"),
    "drive": ({"v_in_v": np.array([1.0, math.nan])}, "v_in_v: found"),
    "drive list": ({"v_in_v": [1.0, 1.0]}, "v_in_v: found"),
    "word": ({"r_word_ohm": -1.0}, "r_word_ohm: found -1.0"),
    "bit": ({"r_bit_ohm": math.inf}, "r_bit_ohm: found inf"),
    "driver": ({"driver_ohm": math.nan}, "driver_ohm: found nan"),
    "sense": ({"sense_ohm": "1"}, "sense_ohm: found '1'"),
    "tolerance": ({"tolerance": 0.0}, "tolerance: found 0.0"),
    "tolerance type": ({"tolerance": None}, "tolerance: found None"),
    "steps": ({"max_iterations": 0}, "max_iterations: found 0"),
    "steps type": ({"max_iterations": 2.0}, "max_iterations: found 2.0"),
    "current": ({"current": lambda u: u + math.nan}, "current: found a value"),
    "current shape": ({"current": np.sum}, "current: found shape"),
    "derivative": ({"derivative": np.zeros_like}, "derivative: found 0 to 0"),
    "derivative shape": ({"derivative": np.sum}, "derivative: found shape"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input(case):
    change, match = BAD[case]
    good = {
        "g_s": np.full((2, 3), 1e-4), "v_in_v": np.array([0.1, 0.2]), "r_word_ohm": 1.0,
        "r_bit_ohm": 1.0, "current": linear, "derivative": np.ones_like,
    }  # fmt: skip
    with pytest.raises(InputError, match=f"solve_tile: {match}.*allowed|solve_tile: {match}"):
        solve_tile(**(good | change))


@pytest.mark.parametrize(
    ("curve", "message"),
    [
        (None, "current: found NoneType, allowed: a function"),
        ("a", "current: found str, allowed: a function"),
        (lambda u: u / (u * 0 + 1) * "a", "current: found a function that raises"),
        (lambda _: 1 / 0, r"raises ZeroDivisionError \(division by zero\)"),
    ],
)
def test_curves_that_are_none_are_refused(curve, message):
    g, v = tile()
    with pytest.raises(InputError, match=message):
        solved(g, v, curve, np.ones_like)
