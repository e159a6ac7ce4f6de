"""The ladder model against the exact one: where they agree, and how fast they part."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from eptsim.crossbar.wire_ladder import ladder_conductance
from eptsim.crossbar.wires import effective_conductance

SIZES = {"rows": st.integers(1, 30), "columns": st.integers(1, 30), "seed": st.integers(0, 10**6)}
OHM = st.one_of(st.just(0.0), st.floats(1e-6, 1e6))


def tile(rows, columns, seed):
    generator = np.random.default_rng(seed)
    g = generator.uniform(0, 10.0 ** generator.uniform(-6, -3), (rows, columns))
    g[generator.random(g.shape) < 0.1] = 0.0
    return g


@settings(max_examples=50, deadline=None)
@given(**SIZES, r=OHM, end=OHM, word=st.booleans())
def test_exact_where_one_kind_of_line_has_resistance(rows, columns, seed, r, end, word):
    g = tile(rows, columns, seed)
    ohms = {"r_word_ohm": r * word, "r_bit_ohm": r * (not word)}
    ohms |= {"driver_ohm": end * word, "sense_ohm": end * (not word)}
    want = effective_conductance(g, **ohms)
    assert np.abs(ladder_conductance(g, **ohms) - want).max() <= 1e-12 * want.max()


@settings(max_examples=50, deadline=None)
@given(**SIZES, word=OHM, bit=OHM, driver=OHM, sense=OHM)
def test_reciprocity_and_bounds(rows, columns, seed, word, bit, driver, sense):
    g = tile(rows, columns, seed)
    got = ladder_conductance(g, word, bit, driver_ohm=driver, sense_ohm=sense)
    turned = ladder_conductance(
        g.T[::-1, ::-1].copy(), bit, word, driver_ohm=sense, sense_ohm=driver
    )
    np.testing.assert_allclose(turned, got.T[::-1, ::-1], rtol=1e-12)
    assert (got >= 0).all() and (got <= g * (1 + 1e-12)).all()
    # cells taken to ground load a line more than cells on a bit line that rises
    exact = effective_conductance(g, word, bit, driver_ohm=driver, sense_ohm=sense)
    assert (got - exact).max() <= 1e-12 * g.max()


@pytest.mark.parametrize("ends", [0.0, 5.0])
def test_error_is_of_second_order_in_the_resistance(ends):
    g = tile(40, 30, 0)
    scale = np.array([1e-3, 1e-2, 1e-1])
    errors = []
    for s in scale:
        ohms = {"driver_ohm": ends * s, "sense_ohm": ends * s}
        exact = effective_conductance(g, s, 2 * s, **ohms)
        errors.append(np.abs(ladder_conductance(g, s, 2 * s, **ohms) - exact).max())
    slope = np.diff(np.log(errors)) / np.diff(np.log(scale))
    assert np.allclose(slope, 2.0, atol=0.05)


def test_by_hand():
    g = np.array([[1e-3, 2e-3]])
    got = ladder_conductance(g, 10.0, 0.0, driver_ohm=90.0)
    second = 1 / (1 + 10.0 * 2e-3)
    first = 1 / (1 + 100.0 * (1e-3 + 2e-3 * second))
    np.testing.assert_allclose(got, [[1e-3 * first, 2e-3 * first * second]], rtol=1e-14)


def test_no_resistance_batches_and_types():
    g = torch.rand(2, 3, 20, 17, dtype=torch.float64) * 1e-4
    assert torch.equal(ladder_conductance(g, 0.0, 0.0), g)
    got = ladder_conductance(g, 1.0, 2.0, sense_ohm=3.0)
    one = ladder_conductance(g[1, 2].numpy(), 1.0, 2.0, sense_ohm=3.0)
    assert isinstance(one, np.ndarray) and np.array_equal(got[1, 2].numpy(), one)
