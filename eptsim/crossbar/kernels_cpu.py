"""The digital edges of one read on the CPU: one numba pass before the matmul, one after it.

``drive`` is stage 1 of a read (range, clip, quantise), ``sense`` stages 3 to 6 (noise, gain,
offset, ADC, subtraction of a line reference, rescale). Both work on rows in parallel; a row never
looks at another one, so no split of the rows can change a bit.

Scalars arrive in a small array of the data's own dtype, so that float32 stays float32.
"""

from __future__ import annotations

import numba as nb
import numpy as np

from eptsim.base.philox import fill_normals

CHUNK = 16
U32 = np.uint32


@nb.njit(error_model="numpy", parallel=True, cache=True)
def drive(x, u, scale, per_vector, quantised, limited, c):  # type: ignore[no-untyped-def]
    """Drive values ``u`` (rows, in) and range ``scale`` (rows,) for inputs ``x`` (rows, in).

    ``c``: held or fixed range, largest input (where ``limited``; no range is above it), DAC steps
    per polarity, 0, 1, smallest range, largest drive. Returns 0, or 1 where an input is not
    finite, or 2 where one is beyond the largest drive.
    """
    rows, lines = x.shape
    chunks = (rows + CHUNK - 1) // CHUNK
    bad = np.zeros(chunks, np.int64)
    zero, one = c[3], c[4]
    for chunk in nb.prange(chunks):
        for n in range(chunk * CHUNK, min(rows, chunk * CHUNK + CHUNK)):
            top = zero
            total = zero
            for k in range(lines):
                top = max(top, abs(x[n, k]))
                total += x[n, k] * zero  # NaN where x is NaN or infinite, else 0
            if total != zero:
                bad[chunk] = 1
            r = c[0]
            if per_vector:
                r = top if top > zero else one
                if limited:
                    r = min(r, c[1])
                r = max(r, c[5])
            scale[n] = r
            if quantised:
                steps = c[2]
                up = steps / r
                down = one / steps
                for k in range(lines):
                    u[n, k] = min(max(np.rint(x[n, k] * up), -steps), steps) * down
            else:
                up = one / r
                if limited:
                    top = min(top, c[1])
                if top * up > c[6] and bad[chunk] == 0:
                    bad[chunk] = 2
                for k in range(lines):
                    u[n, k] = min(max(x[n, k], -top), top) * up
    for n in range(rows, u.shape[0]):
        u[n, :] = zero
    return bad.max()


@nb.njit(error_model="numpy", parallel=True, cache=True)
def sense(  # type: ignore[no-untyped-def]
    p, out, first, last, gain, offset, reference, variance, row_variance, scale, noisy, quantised,
    railed, c, first_row, read, plane, key0, key1,
):
    """Turn the currents ``p`` (rows, out) of one tile segment into digital values added to ``out``.

    ``variance`` (rows, out) and ``row_variance`` (rows,) are read variances, either of which may
    be empty; ``gain``, ``offset``, ``reference`` (out,) belong to the lines. ``c``: variance of
    the line noise, full scale, ADC steps per polarity, weight scale, 1.
    """
    rows, lines = out.shape
    blocks = (lines + 3) // 4
    per_line = variance.shape[0] > 0
    per_row = row_variance.shape[0] > 0
    full, steps = c[1], c[2]
    up = steps / full
    down = full / steps
    for chunk in nb.prange((rows + CHUNK - 1) // CHUNK):
        words = np.empty((4, blocks), np.uint32)
        radius = np.empty(blocks, np.float32)
        normals = np.empty(4 * blocks, np.float32)
        v = np.empty(lines, out.dtype)
        for n in range(chunk * CHUNK, min(rows, chunk * CHUNK + CHUNK)):
            for j in range(lines):
                v[j] = p[n, j]
            if noisy:
                fill_normals(words, radius, normals, U32(first_row + n), read, plane, key0, key1)
                common = c[0]
                if per_row:
                    common += row_variance[n]
                if per_line:
                    for j in range(lines):
                        v[j] += np.sqrt(common + variance[n, j]) * normals[j]
                else:
                    sigma = np.sqrt(common)
                    for j in range(lines):
                        v[j] += sigma * normals[j]
            for j in range(lines):
                v[j] = v[j] * gain[j] + offset[j]
            if quantised:
                for j in range(lines):
                    v[j] = min(max(np.rint(v[j] * up), -steps), steps) * down
            elif railed:
                for j in range(lines):
                    v[j] = min(max(v[j], -full), full)
            for j in range(lines):
                v[j] -= reference[j]
            if not first:
                for j in range(lines):
                    v[j] += out[n, j]
            s = c[4]
            if last:
                s = scale[n] * c[3]
            for j in range(lines):
                out[n, j] = v[j] * s
