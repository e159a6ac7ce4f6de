"""The kernels by themselves: products, inverses and the matrix of one leaf."""

import numpy as np
import pytest

from eptsim.crossbar import wire_blocks as w

ONE = np.ones(1)


def random(*shape):
    return np.random.default_rng(sum(shape)).normal(size=shape)


@pytest.mark.parametrize("shape", [(8, 8, 8), (24, 8, 40), (136, 72, 200), (8, 256, 8)])
def test_products(shape):
    rows, inner, columns = shape
    a, b, c = random(rows, inner), random(inner, columns), random(rows, columns)
    want = c + a @ b
    for form, left in ((w._PLAIN, a), (w._TURNED, a.T.copy())):
        got = c.copy()
        w._multiply(left, b, got, ONE, form)
        np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-11)
    wide = np.zeros((rows + 8, columns + 8))  # a part of a larger matrix
    w._multiply(a, b, wide[8:, 8:], ONE, w._PLAIN)
    np.testing.assert_allclose(wide[8:, 8:], a @ b, rtol=1e-11, atol=1e-11)
    assert not wide[:8].any() and not wide[:, :8].any()


def test_symmetric_products():
    a = random(40, 136)
    got = np.zeros((136, 136))
    w._multiply(a, a, got, ONE, w._UPPER)
    w._mirror(got, 136)
    np.testing.assert_allclose(got, a.T @ a, rtol=1e-11, atol=1e-11)
    assert np.array_equal(got, got.T)


def test_products_without_anything():
    for rows, inner, columns in ((0, 8, 8), (8, 0, 8), (8, 8, 0)):
        c = np.ones((rows, columns))
        w._multiply(np.ones((rows, inner)), np.ones((inner, columns)), c, ONE, w._PLAIN)
        assert (c == 1).all()


@pytest.mark.parametrize("size", [8, 16, 24, 40, 72, 128, 136])
def test_inverse_needs_its_pivots(size):
    x = random(size, size)
    x[np.arange(size), np.arange(size)] = 0.0
    got = x.copy()
    w._invert(got, np.empty(size, np.int64), np.empty(size**2), ONE)
    np.testing.assert_allclose(got @ x, np.eye(size), atol=1e-10 * np.linalg.cond(x))


def test_a_leaf_obeys_kirchhoff():
    """Voltages and currents at the ports of 8 x 8 cells, from a nodal solve of these."""
    g = np.abs(random(8, 8)) * 1e-2
    g[2, 3] = 0.0
    word, first, bit, last = 3.0, 20.0, 2.0, 30.0
    m = np.empty((32, 32))
    w._leaf(g, word, first, bit, last, m)
    np.testing.assert_allclose(m, m.T, atol=1e-15)
    y = np.zeros((160, 160))  # word nodes, bit nodes, and L and B as nodes of a given voltage

    def join(a, b, conductance):
        for p, q in ((a, b), (b, a)):
            y[p, p] += conductance
            y[p, q] -= conductance

    for i in range(8):
        for j in range(8):
            join(8 * i + j, 64 + 8 * i + j, g[i, j])
            join(8 * i + j, 8 * i + j - 1 if j else 128 + i, 1 / (word if j else first))
            down = 64 + 8 * (i + 1) + j if i < 7 else 136 + j
            join(64 + 8 * i + j, down, 1 / (bit if i < 7 else last))
    right, top = 8 * np.arange(8) + 7, 64 + np.arange(8)
    drawn = np.zeros((144, 16))  # currents that leave the nodes through R and T
    drawn[np.concatenate((right, top)), np.arange(16)] = 1.0
    inner = np.linalg.inv(y[:128, :128])
    by_voltage = -inner @ y[:128, 128:144]
    by_current = -inner @ drawn[:128]
    flows = y[128:144, 128:144] + y[128:144, :128] @ by_voltage
    ends = np.concatenate((right, top))
    want = np.block([
        [flows, y[128:144, :128] @ by_current], [by_voltage[ends], by_current[ends]]
    ])  # fmt: skip
    np.testing.assert_allclose(m, want, rtol=1e-9, atol=1e-12)


def test_strides_share_the_tiles():
    from eptsim.crossbar.wire_plan import plan_of

    g = np.abs(random(5, 20, 12)) * 1e-4
    plan, sizes = plan_of(20, 12)
    ohms = np.array([1.0, 2.0, 3.0, 4.0])
    whole, parts = np.zeros_like(g), np.zeros_like(g)
    w.solve_every(g, plan, sizes, ohms, 0, 1, whole)
    for n in range(2):
        w.solve_every(g, plan, sizes, ohms, n, 2, parts)
    assert np.array_equal(whole, parts) and (whole > 0).all()
