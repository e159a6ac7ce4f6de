"""A tile with resistive lines, merged from blocks of 8 x 8 cells: the kernels of wires.py.

A block is a piece of a tile with four groups of ports: word lines come in at the left (L) and go
out at the right (R), bit lines come in at the bottom (B) and go out at the top (T). With voltages
where lines come in and currents where they go out, a block is one symmetric matrix M,

    (i_L, i_B, v_R, v_T) = M (v_L, v_B, i_R, i_T),

i_L and i_B flowing in, i_R and i_T flowing out. Nothing in it is the inverse of a resistance or
of a conductance, so either may be 0. Two things are done with blocks:

- a cell g joins word line R_i to bit line T_j: with u = M[R_i] - M[T_j] and z = u[T_j] - u[R_i],
  the resistance between the two, M becomes M + g / (1 + g z) u^T u;
- outgoing lines of block A join incoming lines of block B: with Z = -M_A[out, out],
  Y = M_B[in, in], a = M_A[out, rest], b = M_B[in, rest] and S = (I + Z Y)^-1, the rest sees
  M_A + a^T Y S a, a^T S^T b and M_B - b^T S Z b.

Halves of halves are joined (nested dissection), which takes O(n^3) operations for n x n cells;
elimination column by column takes O(n^4). A tile is worked on by one thread, so its result
depends on nothing but the tile.
"""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np
from numba.core import types

from eptsim.crossbar.wire_plan import (
    AT,
    AT_A,
    AT_B,
    COLUMN,
    CUT,
    GROUPS,
    JOIN_STEP,
    KIND,
    LAST_STEP,
    LEAF,
    ROW,
    SIZE,
    SIZE_A,
    SIZE_B,
)

_PORTS = 4 * LEAF
_OPTIONS: dict[str, Any] = {"error_model": "numpy", "nogil": True, "cache": True}
_FAST: dict[str, Any] = {**_OPTIONS, "fastmath": {"contract", "nsz"}}
_POINTER = types.CPointer(types.float64)  # type: ignore[no-untyped-call]
_gemm: Any = types.ExternalFunction(  # what numba's np.dot calls, with transposes and beta = 1
    "numba_xxgemm",
    types.intc(
        types.char, types.char, types.char, types.intp, types.intp, types.intp, _POINTER,
        _POINTER, types.intp, _POINTER, types.intp, _POINTER, _POINTER, types.intp,
    ),
)  # fmt: skip
_PLAIN, _TURNED, _UPPER = range(3)
_DOUBLE, _AS_IT_IS, _TRANSPOSED = ord("d"), ord("N"), ord("T")
_SERIAL = 64**3
"""Multiplications up to which OpenBLAS stays on the thread that calls it."""


@nb.njit(**_OPTIONS)
def _matrix(scratch, rows, columns):  # type: ignore[no-untyped-def]
    return scratch[: rows * columns].reshape(rows, columns)


@nb.njit(**_OPTIONS)
def _multiply(a, b, c, one, form):  # type: ignore[no-untyped-def]
    """Add a b, or a^T b, to c; ``_UPPER``: at least to what lies above the diagonal of c."""
    turned, upper = form != _PLAIN, form == _UPPER
    rows, columns = c.shape
    inner = b.shape[0]
    if rows == 0 or columns == 0 or inner == 0:
        return
    wide = min(columns, 64)
    high = min(32 if upper else rows, max(8, _SERIAL // (inner * wide)))
    for i in range(0, rows, high):
        h = min(high, rows - i)
        for j in range(0, columns, wide):
            w = min(wide, columns - j)
            if upper and j + w <= i:
                continue
            left = a[:, i : i + h] if turned else a[i : i + h]
            right, out = b[:, j : j + w], c[i : i + h, j : j + w]
            _gemm(  # by columns, as BLAS counts, this is c^T += b^T a^T
                _DOUBLE, _AS_IT_IS, _TRANSPOSED if turned else _AS_IT_IS, w, h, inner, one.ctypes,
                right.ctypes, right.strides[0] // 8, left.ctypes, left.strides[0] // 8,
                one.ctypes, out.ctypes, out.strides[0] // 8,
            )  # fmt: skip


@nb.njit(**_OPTIONS)
def _mirror(c, n):  # type: ignore[no-untyped-def]
    """Copy what lies above the diagonal of the first n rows and columns of c to below it."""
    for i0 in range(0, n, 16):
        for j0 in range(i0, n, 16):
            for i in range(i0, min(n, i0 + 16)):
                for j in range(max(j0, i + 1), min(n, j0 + 16)):
                    c[j, i] = c[i, j]


@nb.njit(**_OPTIONS)
def _reduce_panel(x, first, swaps):  # type: ignore[no-untyped-def]
    """Gauss-Jordan steps on the LEAF columns of x from ``first`` on, and all their row swaps."""
    n = x.shape[0]
    for k in range(first, first + LEAF):
        top = k
        for i in range(k + 1, n):
            if abs(x[i, k]) > abs(x[top, k]):
                top = i
        swaps[k] = top
        if top != k:
            for j in range(n):
                x[k, j], x[top, j] = x[top, j], x[k, j]
        scale = 1.0 / x[k, k]
        x[k, k] = 1.0
        for j in range(first, first + LEAF):
            x[k, j] *= scale
        for i in range(n):
            if i != k:
                factor = x[i, k]
                x[i, k] = 0.0
                for j in range(LEAF):
                    x[i, first + j] -= factor * x[k, first + j]


@nb.njit(**_OPTIONS)
def _apply(x, first, last, start, stop, scratch, one):  # type: ignore[no-untyped-def]
    """Do to columns ``start`` to ``stop`` what was done to, and is in, the others."""
    old = _matrix(scratch, last - first, stop - start)
    for i in range(last - first):
        for j in range(stop - start):
            old[i, j] = x[first + i, start + j]
            x[first + i, start + j] = 0.0
    _multiply(x[:, first:last], old, x[:, start:stop], one, _PLAIN)


@nb.njit(**_OPTIONS)
def _invert(x, swaps, scratch, one):  # type: ignore[no-untyped-def]
    """Invert x (n, n) in place by Gauss-Jordan with partial pivoting; n is a multiple of LEAF.

    As of a recursion over halves of the columns: a finished half is applied to the other one.
    """
    n = x.shape[0]
    for k in range(0, n, LEAF):
        _reduce_panel(x, k, swaps)
        half = LEAF
        while half < n:
            first = k // half * half
            last = min(first + half, n)
            if last != k + LEAF:
                break
            if first // half % 2 == 1:
                _apply(x, first, last, first - half, first, scratch, one)
            elif last < n:
                _apply(x, first, last, last, min(last + half, n), scratch, one)
            half *= 2
    for k in range(n - 1, -1, -1):
        if swaps[k] != k:
            for i in range(n):
                x[i, k], x[i, swaps[k]] = x[i, swaps[k]], x[i, k]


@nb.njit(**_FAST)
def _add_square(m, factor, u):  # type: ignore[no-untyped-def]
    """M += factor u^T u."""
    n = m.shape[1]
    for p in range(m.shape[0]):
        f = factor * u[p]
        if f != 0.0:
            for q in range(n):
                m[p, q] += f * u[q]


@nb.njit(**_OPTIONS)
def _leaf(g, word, first_word, bit, last_bit, m):  # type: ignore[no-untyped-def]
    """M (32, 32) of the cells g (8, 8); the lines' first segments have resistances of their own."""
    m[:, :] = 0.0
    for i in range(2 * LEAF):
        m[i, i + 2 * LEAF] = 1.0
        m[i + 2 * LEAF, i] = 1.0
    u = np.empty(_PORTS)
    for i in range(LEAF - 1, -1, -1):
        row = 2 * LEAF + i
        for j in range(LEAF):
            column = 3 * LEAF + j
            m[row, row] -= first_word if j == 0 else word
            m[column, column] -= last_bit if i == LEAF - 1 else bit
            if g[i, j] == 0.0:
                continue
            for p in range(_PORTS):
                u[p] = m[row, p] - m[column, p]
            through = g[i, j] / (1.0 + g[i, j] * (u[column] - u[row]))
            _add_square(m, through, u)


@nb.njit(**_OPTIONS)
def _place(part, rows, columns, out):  # type: ignore[no-untyped-def]
    """Put groups of rows and of columns (from, to, number) of ``part`` where they go in ``out``."""
    for n in range(rows.shape[0]):
        row, to_row, high = rows[n]
        for k in range(columns.shape[0]):
            column, to_column, wide = columns[k]
            for i in range(high):
                # rows of their own, so that the loop is vectorised
                old = part[row + i, column : column + wide]
                new = out[to_row + i, to_column : to_column + wide]
                for j in range(wide):
                    new[j] = old[j]


@nb.njit(**_OPTIONS)
def _place_turned(part, rows, columns, out):  # type: ignore[no-untyped-def]
    """As ``_place``, of the transpose of ``part``, in squares that stay in the cache."""
    for n in range(rows.shape[0]):
        row, to_row, high = rows[n]
        for k in range(columns.shape[0]):
            column, to_column, wide = columns[k]
            for i0 in range(0, high, LEAF):
                for j0 in range(0, wide, LEAF):
                    old = part[row + i0 : row + i0 + LEAF, column + j0 : column + j0 + LEAF]
                    r, c = to_column + j0, to_row + i0
                    new = out[r : r + LEAF, c : c + LEAF]
                    for j in range(LEAF):
                        for i in range(LEAF):
                            new[j, i] = old[i, j]


@nb.njit(**_OPTIONS)
def _product(a, b, form, scratch, one):  # type: ignore[no-untyped-def]
    """The product a b, or a^T b, in ``scratch``."""
    rows, columns = a.shape[0 if form == _PLAIN else 1], b.shape[1]
    scratch[: rows * columns] = 0.0
    c = _matrix(scratch, rows, columns)
    _multiply(a, b, c, one, form)
    return c


@nb.njit(**_OPTIONS)
def _inverse(minus_z, y, swaps, scratch, one):  # type: ignore[no-untyped-def]
    """(I + Z Y)^-1 in scratch[0]."""
    x = _product(minus_z, y, _PLAIN, scratch[0], one)
    for i in range(x.shape[0]):
        for j in range(x.shape[0]):
            x[i, j] = -x[i, j]
        x[i, i] += 1.0
    _invert(x, swaps, scratch[1], one)
    return x


@nb.njit(**_OPTIONS)
def _join(step, stack, scratch, swaps, one):  # type: ignore[no-untyped-def]
    """Join two blocks on the stack, whose last ports meet; they are used up."""
    s, size, size_a, size_b = step[CUT], step[SIZE], step[SIZE_A], step[SIZE_B]
    qa, qb = size_a - s, size_b - s
    ma = _matrix(stack[step[AT_A] :], size_a, size_a)
    mb = _matrix(stack[step[AT_B] :], size_b, size_b)
    out = _matrix(stack[step[AT] :], size, size)
    a, aa, minus_z = ma[qa:, :qa], ma[:qa, :qa], ma[qa:, qa:]
    b, bb, y = mb[qb:, :qb], mb[:qb, :qb], mb[qb:, qb:]
    inverse = _inverse(minus_z, y, swaps, scratch, one)
    seen = _product(y, inverse, _PLAIN, scratch[1], one)
    _multiply(a, _product(seen, a, _PLAIN, scratch[2], one), aa, one, _UPPER)
    seen = _product(inverse, minus_z, _PLAIN, scratch[1], one)
    _multiply(b, _product(seen, b, _PLAIN, scratch[2], one), bb, one, _UPPER)
    through = _product(inverse, b, _TURNED, scratch[2], one)
    ab = _product(a, through, _TURNED, scratch[3], one)
    _mirror(ma, qa)
    _mirror(mb, qb)
    groups = step[GROUPS:].reshape(6, 3)
    of_a, of_b = groups[:3], groups[3:]
    _place(ma, of_a, of_a, out)
    _place(mb, of_b, of_b, out)
    _place(ab, of_a, of_b, out)
    _place_turned(ab, of_a, of_b, out)


@nb.njit(**_OPTIONS)
def _join_last(step, stack, scratch, swaps, one, out):  # type: ignore[no-untyped-def]
    """As ``_join``; only M[L, B] of the tile is worked out, and left in ``out``."""
    s, size_a, size_b = step[CUT], step[SIZE_A], step[SIZE_B]
    ma = _matrix(stack[step[AT_A] :], size_a, size_a)
    mb = _matrix(stack[step[AT_B] :], size_b, size_b)
    qa, qb = size_a - s, size_b - s
    groups = step[GROUPS:].reshape(6, 3)
    la, lb = groups[0, 2], groups[3, 2]
    a_word, a_bit, minus_z = ma[qa:, :la], ma[qa:, la:qa], ma[qa:, qa:]
    b_word, b_bit, y = mb[qb:, :lb], mb[qb:, lb:qb], mb[qb:, qb:]
    word_a, bit_a, word_b, bit_b = groups[0, 1], groups[1, 1], groups[3, 1], groups[4, 1]
    rows_a, rows_b = out[word_a : word_a + la], out[word_b : word_b + lb]
    columns_a, columns_b = slice(bit_a, bit_a + qa - la), slice(bit_b, bit_b + qb - lb)
    out[:, :] = 0.0
    _place(ma, groups[:1], groups[1:2], out)
    _place(mb, groups[3:4], groups[4:5], out)
    inverse = _inverse(minus_z, y, swaps, scratch, one)
    seen = _product(inverse, a_bit, _PLAIN, scratch[1], one)
    _multiply(b_word, seen, rows_b[:, columns_a], one, _TURNED)
    seen = _product(y, seen, _PLAIN, scratch[2], one)
    _multiply(a_word, seen, rows_a[:, columns_a], one, _TURNED)
    seen = _product(inverse, b_bit, _TURNED, scratch[1], one)
    _multiply(a_word, seen, rows_a[:, columns_b], one, _TURNED)
    if lb > 0:
        seen = _product(minus_z, b_bit, _PLAIN, scratch[1], one)
        seen = _product(inverse, seen, _PLAIN, scratch[2], one)
        _multiply(b_word, seen, rows_b[:, columns_b], one, _TURNED)


@nb.njit(**_OPTIONS)
def _solve_tile(g, plan, ohms, stack, scratch, swaps, one, out):  # type: ignore[no-untyped-def]
    """-M[L, B] of the padded tile g in ``out``."""
    m = np.empty((_PORTS, _PORTS))
    for n in range(plan.shape[0]):
        step = plan[n]
        if step[KIND] == JOIN_STEP:
            _join(step, stack, scratch, swaps, one)
        elif step[KIND] == LAST_STEP:
            _join_last(step, stack, scratch, swaps, one, out)
        else:
            i, j, size = step[ROW], step[COLUMN], step[SIZE]
            word = ohms[1 if j == 0 else 0]
            bit = ohms[3 if i + LEAF == g.shape[0] else 2]
            _leaf(g[i : i + LEAF, j : j + LEAF], ohms[0], word, ohms[2], bit, m)
            groups = step[GROUPS:].reshape(6, 3)
            if plan.shape[0] == 1:
                _place(m, groups[:1], groups[1:2], out)
            else:
                leaf = _matrix(stack[step[AT] :], size, size)
                _place(m, groups[:4], groups[:4], leaf)


@nb.njit(**_OPTIONS)
def solve_every(g, plan, sizes, ohms, first, stride, out):  # type: ignore[no-untyped-def]
    """Effective conductances ``out`` (S) of tiles ``first``, ``first + stride``, ... of ``g`` (S).

    ``g`` and ``out``: (tiles, rows, columns). ``plan`` and ``sizes``: as of ``plan_of``. ``ohms``:
    resistance of a word-line segment, of the first one with its driver, of a bit-line segment, of
    the last one with its sense amplifier.
    """
    tiles, rows, columns = g.shape
    high, wide = (rows + LEAF - 1) // LEAF * LEAF, (columns + LEAF - 1) // LEAF * LEAF
    one, swaps = np.ones(1), np.empty(sizes[5], np.int64)
    stack, scratch = np.empty(sizes[0]), (
        np.empty(sizes[1]), np.empty(sizes[2]), np.empty(sizes[3]), np.empty(sizes[4])
    )  # fmt: skip
    padded, result = np.zeros((high, wide)), np.empty((high, wide))
    for tile in range(first, tiles, stride):
        for i in range(rows):
            for j in range(columns):
                padded[high - rows + i, j] = g[tile, i, j]
        _solve_tile(padded, plan, ohms, stack, scratch, swaps, one, result)
        for i in range(rows):
            for j in range(columns):
                out[tile, i, j] = max(0.0 - result[high - rows + i, j], 0.0)
