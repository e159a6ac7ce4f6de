"""Wires against circuits solved by independent programs, and against a nodal solve written here."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import eptsim
from eptsim.base.errors import InputError

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "wires.json").read_text())


def nodal_solve(g, r_word, r_bit, drive):
    """Bit-line currents by the full nodal matrix, every crossing two unknown nodes."""
    rows, columns = g.shape
    size = rows * columns
    y = np.zeros((2 * size, 2 * size))
    b = np.zeros(2 * size)

    def word(i, j):
        return i * columns + j

    def bit(i, j):
        return size + i * columns + j

    def join(a, c, conductance):
        for p, q in ((a, c), (c, a)):
            y[p, p] += conductance
            y[p, q] -= conductance

    for i in range(rows):
        y[word(i, 0), word(i, 0)] += 1 / r_word
        b[word(i, 0)] += drive[i] / r_word
        for j in range(columns):
            join(word(i, j), bit(i, j), g[i, j])
            if j + 1 < columns:
                join(word(i, j), word(i, j + 1), 1 / r_word)
            if i + 1 < rows:
                join(bit(i, j), bit(i + 1, j), 1 / r_bit)
    for j in range(columns):
        y[bit(rows - 1, j), bit(rows - 1, j)] += 1 / r_bit
    v = np.linalg.solve(y, b)
    return np.array([v[bit(rows - 1, j)] / r_bit for j in range(columns)])


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


@settings(max_examples=20, deadline=None)
@given(
    st.integers(1, 6), st.integers(1, 6), st.floats(0.01, 1e4), st.floats(0.01, 1e4),
    st.integers(0, 10**6),
)
def test_against_a_nodal_solve_and_reciprocity(rows, columns, r_word, r_bit, seed):
    generator = np.random.default_rng(seed)
    g = generator.uniform(0, 1e-3, (rows, columns))
    drive = generator.normal(size=rows)
    matrix = eptsim.effective_conductance(g, r_word, r_bit)
    want = nodal_solve(g, r_word, r_bit, drive)
    assert np.abs(drive @ matrix - want).max() <= 1e-9 * max(np.abs(want).max(), 1e-12)
    # driven at the sensing ends: the same network seen from the other side, corner to corner
    flipped = eptsim.effective_conductance(g.T[::-1, ::-1].copy(), r_bit, r_word)
    np.testing.assert_allclose(flipped, matrix.T[::-1, ::-1], rtol=1e-8, atol=1e-18)


def test_limits_and_batches():
    g = torch.rand(3, 7, 5, dtype=torch.float64) * 1e-4
    assert torch.equal(eptsim.effective_conductance(g, 0.0, 0.0), g)
    tiny = eptsim.effective_conductance(g, 1e-9, 1e-9)
    assert torch.allclose(tiny, g, rtol=1e-9, atol=0)
    one = torch.stack([eptsim.effective_conductance(t, 3.0, 2.0) for t in g])
    assert torch.allclose(eptsim.effective_conductance(g, 3.0, 2.0), one, rtol=1e-13, atol=0)
    half = eptsim.effective_conductance(g, 1e-9, 50.0)
    assert torch.allclose(eptsim.effective_conductance(g, 0.0, 50.0), half, rtol=1e-6)
    blocked = eptsim.effective_conductance(g, 1e15, 1e15)
    assert bool(torch.isfinite(blocked).all()) and float(blocked.abs().max()) < 1e-12


@pytest.mark.parametrize(
    ("g", "word", "bit", "match"),
    [
        (np.array([[-1.0]]), 1.0, 1.0, "negative"),
        (np.array([[np.nan]]), 1.0, 1.0, "non-finite"),
        (np.ones(3), 1.0, 1.0, "shape"),
        (np.ones((0, 3)), 1.0, 1.0, "shape"),
        (np.ones((2, 2)), -1.0, 1.0, "r_word_ohm"),
        (np.ones((2, 2)), 1.0, float("inf"), "r_bit_ohm"),
    ],
)
def test_bad_input(g, word, bit, match):
    with pytest.raises(InputError, match=match):
        eptsim.effective_conductance(g, word, bit)
