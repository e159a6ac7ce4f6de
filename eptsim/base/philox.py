"""Philox4x32-10 in numba: the counter-based generator behind every random draw.

Philox (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011) maps a 128-bit
counter and a 64-bit key to four 32-bit words. There is no state to carry: a draw is a pure
function of what it is for, so neither the number of workers nor the order of work can change it.

The loops are split in small passes over one contiguous array each, because that is the form that
LLVM vectorises (1.5 ns per normal on one AVX-512 core; one fused scalar loop takes 12 ns).
"""

from __future__ import annotations

import numba as nb
import numpy as np

U32 = np.uint32
U64 = np.uint64
F32 = np.float32
I32 = np.int32

_M0, _M1 = U64(0xD2511F53), U64(0xCD9E8D57)
_W0, _W1 = U32(0x9E3779B9), U32(0xBB67AE85)
_SHIFT = U64(32)
_QUARTER = U32(0x40000000)
_HALF = F32(0.5)
_TURN = F32(2.0**-31)
_U24 = F32(2.0**-24)
_U23 = F32(2.0**-23)
_LN2 = F32(0.69314718056)
# minimax coefficients: log of a mantissa around 1, and sin(pi x) for |x| <= 1/2
_L1, _L2, _L3, _L4 = F32(0.66666662693), F32(0.40000972152), F32(0.28498786688), F32(0.24279078841)
_S = tuple(
    F32(c)
    for c in (3.14159265, -5.16771278, 2.55016404, -0.599264529, 0.0821458866, -0.00737043094)
)
_S0, _S1, _S2, _S3, _S4, _S5 = _S


@nb.njit(error_model="numpy", cache=True)
def philox(c0, c1, c2, c3, k0, k1):  # type: ignore[no-untyped-def]
    """Return the four words of one Philox4x32-10 block (all arguments uint32)."""
    for _ in range(10):
        p0 = _M0 * U64(c0)
        p1 = _M1 * U64(c2)
        n0 = U32(p1 >> _SHIFT) ^ c1 ^ k0
        n2 = U32(p0 >> _SHIFT) ^ c3 ^ k1
        c1 = U32(p1)
        c3 = U32(p0)
        c0 = n0
        c2 = n2
        k0 = U32(k0 + _W0)
        k1 = U32(k1 + _W1)
    return c0, c1, c2, c3


@nb.njit(error_model="numpy", nogil=True, cache=True)
def fill_words(words, c1, c2, c3, k0, k1):  # type: ignore[no-untyped-def]
    """Fill ``words`` (4, n) uint32 with the blocks of counters (0..n-1, c1, c2, c3)."""
    for b in range(words.shape[1]):
        w0, w1, w2, w3 = philox(U32(b), c1, c2, c3, k0, k1)
        words[0, b] = w0
        words[1, b] = w1
        words[2, b] = w2
        words[3, b] = w3


@nb.njit(error_model="numpy", cache=True)
def _log(u):  # type: ignore[no-untyped-def]
    i = F32(u).view(I32)
    e = I32((i - I32(0x3F3504F3)) >> I32(23))
    x = F32(I32(i - I32(e << I32(23))).view(F32) - F32(1))
    s = x / (F32(2) + x)
    z = s * s
    w = z * z
    r = w * (_L2 + w * _L4) + z * (_L1 + w * _L3)
    h = _HALF * x * x
    return s * (h + r) - h + x + F32(e) * _LN2


@nb.njit(error_model="numpy", cache=True)
def _sinpi(x):  # type: ignore[no-untyped-def]
    z = x * x
    return x * (_S0 + z * (_S1 + z * (_S2 + z * (_S3 + z * (_S4 + z * _S5)))))


@nb.njit(error_model="numpy", nogil=True, fastmath={"contract", "nsz"}, cache=True)
def _radius(words, radius):  # type: ignore[no-untyped-def]
    for b in range(words.shape[0]):
        u = F32(F32(I32(words[b] >> U32(8))) + _HALF) * _U24
        radius[b] = np.sqrt(F32(-2) * _log(u))


@nb.njit(error_model="numpy", nogil=True, fastmath={"contract", "nsz"}, cache=True)
def _turn(words, radius, first, second):  # type: ignore[no-untyped-def]
    for b in range(words.shape[0]):
        v = words[b]
        c = F32(I32(v)) * _TURN
        s = F32(I32(U32(v - _QUARTER))) * _TURN
        r = radius[b]
        first[b] = r * _sinpi(_HALF - abs(c))
        second[b] = r * _sinpi(_HALF - abs(s))


@nb.njit(error_model="numpy", nogil=True, cache=True)
def fill_rows(normals, first_row, c2, c3, k0, k1):  # type: ignore[no-untyped-def]
    """Fill ``normals`` (rows, 4 n) float32 with standard normals (Box-Muller).

    Row r holds those of the counters (0..n-1, first_row + r, c2, c3).
    """
    rows, n = normals.shape[0], normals.shape[1] // 4
    words = np.empty((4, n), np.uint32)
    radius = np.empty(n, np.float32)
    for r in range(rows):
        fill_words(words, U32(first_row + r), c2, c3, k0, k1)
        row = normals[r]
        _radius(words[0], radius)
        _turn(words[1], radius, row[:n], row[n : 2 * n])
        _radius(words[2], radius)
        _turn(words[3], radius, row[2 * n : 3 * n], row[3 * n :])


@nb.njit(error_model="numpy", nogil=True, cache=True)
def _normal_chunk(out, start, stop, first_row, c2, c3, k0, k1):  # type: ignore[no-untyped-def]
    lines = out.shape[1]
    normals = np.empty((stop - start, 4 * ((lines + 3) // 4)), np.float32)
    fill_rows(normals, first_row + start, c2, c3, k0, k1)
    for r in range(start, stop):
        for j in range(lines):
            out[r, j] = normals[r - start, j]


@nb.njit(error_model="numpy", nogil=True, cache=True)
def _uniform_chunk(out, start, stop, first_row, c2, c3, k0, k1):  # type: ignore[no-untyped-def]
    lines = out.shape[1]
    n = (lines + 3) // 4
    words = np.empty((4, n), np.uint32)
    for r in range(start, stop):
        fill_words(words, U32(first_row + r), c2, c3, k0, k1)
        for j in range(lines):
            w = words[j // n, j % n]
            # 23 bits and a half: the largest is below 1 in float32 too
            out[r, j] = F32(F32(I32(w >> U32(9))) + _HALF) * _U23


@nb.njit(error_model="numpy", parallel=True, cache=True)
def normal_rows(out, first_row, c2, c3, k0, k1):  # type: ignore[no-untyped-def]
    """Fill ``out`` (rows, lines) float32: row r holds the normals of counter row first_row + r."""
    rows = out.shape[0]
    for chunk in nb.prange((rows + 15) // 16):
        _normal_chunk(out, chunk * 16, min(rows, chunk * 16 + 16), first_row, c2, c3, k0, k1)


@nb.njit(error_model="numpy", parallel=True, cache=True)
def uniform_rows(out, first_row, c2, c3, k0, k1):  # type: ignore[no-untyped-def]
    """Fill ``out`` (rows, lines) float32 with uniforms in (0, 1), counters as in normal_rows."""
    rows = out.shape[0]
    for chunk in nb.prange((rows + 15) // 16):
        _uniform_chunk(out, chunk * 16, min(rows, chunk * 16 + 16), first_row, c2, c3, k0, k1)


@nb.njit(error_model="numpy", nogil=True, cache=True)
def normal_rows_serial(out, first_row, c2, c3, k0, k1):  # type: ignore[no-untyped-def]
    """What ``normal_rows`` does, on one thread: waking others costs more than few draws take."""
    rows = out.shape[0]
    for start in range(0, rows, 16):
        _normal_chunk(out, start, min(rows, start + 16), first_row, c2, c3, k0, k1)


@nb.njit(error_model="numpy", nogil=True, cache=True)
def uniform_rows_serial(out, first_row, c2, c3, k0, k1):  # type: ignore[no-untyped-def]
    """What ``uniform_rows`` does, on one thread."""
    rows = out.shape[0]
    for start in range(0, rows, 16):
        _uniform_chunk(out, start, min(rows, start + 16), first_row, c2, c3, k0, k1)
