"""The digital edges of one read on the CPU: one numba pass before the matmul, one after it.

``drive`` is stage 1 of a read (range, clip, quantise), ``sense`` stages 3 to 6 (noise, gain,
offset, ADC, subtraction of a line reference, rescale). Both work on rows in parallel; a row never
looks at another one, so no split of the rows can change a bit.

Scalars arrive in a small array of the data's own dtype, so that float32 stays float32. Each
loop over lines is a function of its own: in one long body LLVM gives up vectorising them, which
costs a factor of 3.
"""

from __future__ import annotations

from typing import Any

import numba as nb
import numpy as np

from eptsim.base.philox import fill_rows

CHUNK = 16
_ROW: dict[str, Any] = {"error_model": "numpy", "nogil": True, "cache": True}
_FAST: dict[str, Any] = {**_ROW, "fastmath": {"contract", "nsz", "nnan"}}


@nb.njit(**_ROW)
def _peak(bits, sign):  # type: ignore[no-untyped-def]
    """Largest magnitude of a row, as the bit pattern it has as an integer; NaN is above all."""
    top = bits[0] & sign
    for k in range(bits.shape[0]):
        top = max(top, bits[k] & sign)
    return top


@nb.njit(**_FAST)
def _quantise(x, up, down, steps, out):  # type: ignore[no-untyped-def]
    for j in range(out.shape[0]):
        out[j] = min(max(np.rint(x[j] * up), -steps), steps) * down


@nb.njit(**_FAST)
def _clip(x, top, up, out):  # type: ignore[no-untyped-def]
    for j in range(out.shape[0]):
        out[j] = min(max(x[j], -top), top) * up


@nb.njit(**_FAST)
def _add_noise(p, sigma, normals, v):  # type: ignore[no-untyped-def]
    for j in range(v.shape[0]):
        v[j] = p[j] + sigma * normals[j]


@nb.njit(**_FAST)
def _add_line_noise(p, common, variance, normals, v):  # type: ignore[no-untyped-def]
    for j in range(v.shape[0]):
        v[j] = p[j] + np.sqrt(common + variance[j]) * normals[j]


@nb.njit(**_FAST)
def _gain(p, gain, offset, v):  # type: ignore[no-untyped-def]
    for j in range(v.shape[0]):
        v[j] = p[j] * gain[j] + offset[j]


@nb.njit(**_FAST)
def _put(v, reference, factor, s, out):  # type: ignore[no-untyped-def]
    for j in range(v.shape[0]):
        out[j] = (v[j] - reference[j]) * factor[j] * s


@nb.njit(**_FAST)
def _accumulate(v, reference, factor, s, out):  # type: ignore[no-untyped-def]
    for j in range(v.shape[0]):
        out[j] = ((v[j] - reference[j]) * factor[j] + out[j]) * s


@nb.njit(**_FAST)
def _sum_squares(a, b, out):  # type: ignore[no-untyped-def]
    for j in range(out.shape[0]):
        out[j] = a[j] * a[j] + b[j] * b[j]


@nb.njit(error_model="numpy", parallel=True, cache=True)
def sum_of_squares(a, b, out):  # type: ignore[no-untyped-def]
    """Elementwise a^2 + b^2 of two matrices, in one pass."""
    for n in nb.prange(out.shape[0]):
        _sum_squares(a[n], b[n], out[n])


@nb.njit(error_model="numpy", parallel=True, cache=True)
def drive(x, bits, u, scale, per_vector, quantised, limited, c, masks):  # type: ignore[no-untyped-def]
    """Drive values ``u`` (rows, in) and range ``scale`` (rows,) for inputs ``x`` (rows, in).

    ``bits`` is ``x`` seen as integers of the same width; ``masks``: all bits but the sign, and the
    bits of infinity. ``c``: held or fixed range, largest input (where ``limited``; no range is
    above it), DAC steps per polarity, 0, 1, smallest range, largest drive. Returns 0, or 1 where
    an input is not finite, or 2 where one is beyond the largest drive.
    """
    rows = x.shape[0]
    chunks = (rows + CHUNK - 1) // CHUNK
    bad = np.zeros(chunks, np.int64)
    zero, one, steps = c[3], c[4], c[2]
    for chunk in nb.prange(chunks):
        pattern = np.empty(1, bits.dtype)
        value = pattern.view(x.dtype)
        for n in range(chunk * CHUNK, min(rows, chunk * CHUNK + CHUNK)):
            pattern[0] = _peak(bits[n], masks[0])
            if pattern[0] >= masks[1]:
                bad[chunk] = 1
            top = value[0]
            r = c[0]
            if per_vector:
                r = top if top > zero else one
                if limited:
                    r = min(r, c[1])
                r = max(r, c[5])
            scale[n] = r
            if quantised:
                _quantise(x[n], steps / r, one / steps, steps, u[n])
            else:
                up = one / r
                if limited:
                    top = min(top, c[1])
                if top * up > c[6] and bad[chunk] == 0:
                    bad[chunk] = 2
                _clip(x[n], top, up, u[n])
    for n in range(rows, u.shape[0]):
        u[n, :] = zero
    return bad.max()


@nb.njit(error_model="numpy", nogil=True, cache=True)
def _sense_rows(  # type: ignore[no-untyped-def]
    p, out, start, stop, first, last, gain, offset, reference, factor, variance, row_variance,
    scale, normals, quantised, railed, c,
):
    lines = out.shape[1]
    full, steps = c[1], c[2]
    v = np.empty(lines, out.dtype)
    for n in range(start, stop):
        if normals.shape[0] > 0:
            common = c[0]
            if row_variance.shape[0] > 0:
                common += row_variance[n]
            if variance.shape[0] > 0:
                _add_line_noise(p[n], common, variance[n], normals[n - start], v)
            else:
                _add_noise(p[n], np.sqrt(common), normals[n - start], v)
            _gain(v, gain, offset, v)
        else:
            _gain(p[n], gain, offset, v)
        if quantised:
            _quantise(v, steps / full, full / steps, steps, v)
        elif railed:
            _clip(v, full, c[4], v)
        s = scale[n] * c[3] if last else c[4]
        if first:
            _put(v, reference, factor, s, out[n])
        else:
            _accumulate(v, reference, factor, s, out[n])


@nb.njit(error_model="numpy", parallel=True, cache=True)
def sense(  # type: ignore[no-untyped-def]
    p, out, first, last, gain, offset, reference, factor, variance, row_variance, scale, noisy,
    quantised, railed, c, first_row, read, plane, key0, key1,
):
    """Turn the currents ``p`` (rows, out) of one tile segment into digital values added to ``out``.

    ``variance`` (rows, out) and ``row_variance`` (rows,) are read variances, either of which may
    be empty; ``gain``, ``offset``, ``reference``, ``factor`` (digital, after the subtraction)
    (out,) belong to the lines. ``c``: variance of
    the line noise, full scale, ADC steps per polarity, weight scale, 1.
    """
    rows, lines = out.shape
    blocks = (lines + 3) // 4
    for chunk in nb.prange((rows + CHUNK - 1) // CHUNK):
        start = chunk * CHUNK
        stop = min(rows, start + CHUNK)
        normals = np.empty((stop - start if noisy else 0, 4 * blocks), np.float32)
        if noisy:
            fill_rows(normals, first_row + start, read, plane, key0, key1)
        _sense_rows(
            p, out, start, stop, first, last, gain, offset, reference, factor, variance,
            row_variance, scale, normals, quantised, railed, c,
        )
