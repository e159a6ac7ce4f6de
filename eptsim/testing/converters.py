"""Converters: codes and clipping of both ends, ranges, and conversion tile by tile."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from eptsim.testing.bench import DIRECTIONS, Array, Bench, drives, numbers, product, read
from eptsim.testing.check import Check, Measured, both, count

BITS = (1, 2, 3, 8, 12)
TRUTH = "rounding in float64"
WIDTH = 6


def steps(bits: int) -> int:
    """Codes per polarity of a converter: 2^(bits-1) - 1, and one for a single bit (a sign)."""
    return max((1 << (bits - 1)) - 1, 1)


def quantised(x: Array, top: float, bits: int) -> Array:
    """``x`` clipped at ``top`` and rounded to the codes of ``bits`` over it."""
    codes = steps(bits)
    return np.asarray(np.round(np.clip(x / top, -1.0, 1.0) * codes) * top / codes)


def clear_of_ties(x: Array, top: float, bits: int, margin: float = 1e-3) -> Array:
    """Where ``x`` is not within ``margin`` of a step of a boundary between two codes."""
    place = np.clip(x / top, -1.0, 1.0) * steps(bits) - 0.5
    return np.asarray(np.abs(place - np.round(place)) > margin)


def _ramp(bench: Bench, top: float) -> Array:
    """Numbers (rows, 1) beyond +-``top``, as the dtype holds them."""
    return numbers(bench.tensor(np.linspace(-1.4 * top, 1.4 * top, 1201)[:, None]))


def _dac(bench: Bench, direction: str) -> Iterator[Measured]:
    """One cell, driven through a ramp: every code, and nothing between them."""
    for bits in BITS:
        for top in (1.0, 0.5):
            changes: dict[str, object] = {f"{direction}.dac_bits": bits}
            if top != 1.0:
                changes[f"{direction}.input_range"] = top
            array = bench.build(bench.tensor([[1.0]]), changes)
            x = _ramp(bench, top)
            y = numbers(read(array, direction, bench.tensor(x), policy="fixed"))
            clear = clear_of_ties(x, top, bits)
            off = float(np.abs(y - quantised(x, top, bits))[clear].max())
            yield Measured(f"{bits} bits, range {top}: error", off, 16 * bench.eps)
            found = np.unique(np.round(y / top * steps(bits), 3)).size
            yield count(f"{bits} bits: codes missing", min(found, 1201) < _codes(bits, 1201))


def _codes(bits: int, points: int) -> int:
    """Codes that a ramp of ``points`` over 1.4 ranges must show."""
    return min(2 * steps(bits) + 1, points // 2)


def _dac_per_vector(bench: Bench, direction: str) -> Iterator[Measured]:
    """Each vector over its own maximum, and a limit on it."""
    x = numbers(bench.normal(200, WIDTH, seed=1) * bench.tensor(10.0) ** bench.normal(200, 1))
    for limit in (None, 1.0):
        changes: dict[str, object] = {f"{direction}.dac_bits": 5}
        if limit is not None:
            changes[f"{direction}.input_range"] = limit
        array = bench.build(bench.tensor(np.eye(WIDTH)), changes)
        y = numbers(read(array, direction, bench.tensor(x), policy="per_vector"))
        top = np.abs(x).max(axis=1, keepdims=True)
        top = top if limit is None else np.minimum(top, limit)
        want = quantised(x / top, 1.0, 5)
        clear = clear_of_ties(x / top, 1.0, 5)
        off = float(np.abs(y / top - want)[clear].max())
        yield Measured(f"limit {limit}: error over the range", off, 32 * bench.eps)


def _held(bench: Bench, direction: str) -> Iterator[Measured]:
    array = bench.build(bench.tensor([[1.0]]), {f"{direction}.dac_bits": 4})
    x = _ramp(bench, 2.5)
    for top in (2.5, 0.7):
        array.hold_range(direction, top)
        yield count(f"held_range is not {top}", array.held_range(direction) != top)
        y = numbers(read(array, direction, bench.tensor(x), policy="held"))
        clear = clear_of_ties(x, top, 4)
        off = float(np.abs(y - quantised(x, top, 4))[clear].max())
        yield Measured(f"held at {top}: error", off, 32 * bench.eps)
    limited = {f"{direction}.dac_bits": 4, f"{direction}.input_range": 0.5}
    array = bench.build(bench.tensor([[1.0]]), limited)
    array.hold_range(direction, 2.5)
    y = numbers(read(array, direction, bench.tensor(x), policy="held"))
    off = float(np.abs(y - quantised(x, 0.5, 4))[clear_of_ties(x, 0.5, 4)].max())
    yield Measured("held at 2.5, limited to 0.5: error", off, 32 * bench.eps)


def _adc(bench: Bench, direction: str) -> Iterator[Measured]:
    """One cell: the outputs are codes of the full scale, and clipped at it."""
    for bits in BITS:
        for full in (12.0, 2.0):
            changes: dict[str, object] = {f"{direction}.adc_bits": bits}
            if full != 12.0:
                changes[f"{direction}.output_range"] = full
            array = bench.build(bench.tensor([[1.0]]), changes)
            x = _ramp(bench, full)
            y = numbers(read(array, direction, bench.tensor(x), policy="fixed"))
            clear = clear_of_ties(x, full, bits)
            off = float(np.abs(y - quantised(x, full, bits))[clear].max())
            yield Measured(f"{bits} bits, full scale {full}: error", off, 16 * full * bench.eps)


def _clipping(bench: Bench, direction: str) -> Iterator[Measured]:
    """Ranges without a resolution clip and do nothing else."""
    x = _ramp(bench, 1.0)
    for key in ("input_range", "output_range"):
        array = bench.build(bench.tensor([[1.0]]), {f"{direction}.{key}": 0.5})
        y = numbers(read(array, direction, bench.tensor(x), policy="fixed"))
        off = float(np.abs(y - np.clip(x, -0.5, 0.5)).max())
        yield Measured(f"{key}: error", off, 8 * bench.eps)


def _rescale(bench: Bench, direction: str) -> Iterator[Measured]:
    """The full scale is in units of (largest weight) x (range of the vector)."""
    size = 3.0
    w, x = size * bench.weight(7, 9), 5.0 * bench.codes(100, drives((7, 9), direction))
    array = bench.build(w, {f"{direction}.adc_bits": 6, f"{direction}.output_range": 1.5})
    y = numbers(read(array, direction, x, policy="per_vector"))
    top = np.abs(numbers(x)).max(axis=1, keepdims=True)
    exact = product(numbers(w) / size, direction, numbers(x) / top)
    clear = clear_of_ties(exact, 1.5, 6, 0.01)
    off = float(np.abs(y / (size * top) - quantised(exact, 1.5, 6))[clear].max())
    yield Measured("error over the full scale", off / 1.5, 64 * bench.eps)
    yield count("nothing was clipped", bool((np.abs(exact) < 1.5).all()))


def _tiles(bench: Bench, direction: str) -> Iterator[Measured]:
    """Each tile converts its own partial sum; the sums are added digitally."""
    tile, tiles, lines, bits, full = 4, 3, 5, 5, 2.0
    inner = tile * tiles
    shape = (lines, inner) if direction == "forward" else (inner, lines)
    w, x = bench.weight(*shape), bench.codes(300, inner)
    size = "array.rows" if direction == "forward" else "array.columns"
    changes: dict[str, object] = {
        size: tile, f"{direction}.adc_bits": bits, f"{direction}.output_range": full
    }
    y = numbers(read(bench.build(w, changes), direction, x, policy="fixed"))
    matrix = numbers(w) if direction == "forward" else numbers(w).T
    want, clear = np.zeros_like(y), np.ones_like(y, dtype=bool)
    for start in range(0, inner, tile):
        part = slice(start, start + tile)
        partial = numbers(x)[:, part] @ matrix[:, part].T
        want += quantised(partial, full, bits)
        clear &= clear_of_ties(partial, full, bits, 0.01)
    yield Measured("error", float(np.abs(y - want)[clear].max()), 64 * bench.eps)


def _summed(
    bench: Bench,
    direction: str,
    w: Array,
    changes: Mapping[str, object],
    parts: Sequence[tuple[Array, Array]],
) -> Measured:
    """Error of reads of ``w`` against digital sums of converted partial sums.

    ``parts`` are the matrices (out, in) that are read one by one, each with the digital factor of
    its partial sums (broadcasting to their lines).
    """
    bits, full = 6, 3.0
    entries = {f"{direction}.adc_bits": bits, f"{direction}.output_range": full}
    array = bench.build(bench.tensor(w), {**changes, **entries})
    x = bench.codes(200, drives(w.shape, direction))
    y = numbers(read(array, direction, x, policy="fixed"))
    want, clear = np.zeros_like(y), np.ones_like(y, dtype=bool)
    for matrix, factor in parts:
        current = product(matrix, direction, numbers(x))
        want += factor * quantised(current, full, bits)
        clear &= clear_of_ties(current, full, bits, 0.01)
    return Measured("error", float(np.abs(y - want)[clear].max()), 256 * bench.eps)


def _slices(bench: Bench, direction: str) -> Iterator[Measured]:
    """Two slices of 4 levels count 12/15 and 3/15, and convert apart."""
    w = numbers(bench.weight(7, 9))
    value = np.round(np.abs(w) * 15)
    sure = np.abs(np.abs(w) * 15 - value) < 0.49
    w, value = np.where(sure, w, 0.0), np.where(sure, value, 0.0)
    digits = [np.sign(w) * digit / 3 for digit in (value // 4, value % 4)]
    parts = [(digits[0], np.array(12 / 15)), (digits[1], np.array(3 / 15))]
    changes = {"cell.levels": 4, "array.slices": 2}
    yield _summed(bench, direction, w, changes, parts)


def _scaling_tile(bench: Bench, direction: str) -> Iterator[Measured]:
    """Each tile converts in units of its own largest weight."""
    w = numbers(bench.weight(6, 8)) * np.repeat([1.0, 0.2], 4)
    w /= np.abs(w).max()
    parts = []
    for o in (slice(0, 3), slice(3, 6)):
        for i in (slice(0, 4), slice(4, 8)):
            tile = np.zeros_like(w)
            top = np.abs(w[o, i]).max()
            tile[o, i] = w[o, i] / top
            parts.append((tile, np.array(top)))
    changes = {"array.scaling": "tile", "array.rows": 4, "array.columns": 3}
    yield _summed(bench, direction, w, changes, parts)


def _scaling_column(bench: Bench) -> Iterator[Measured]:
    """Each output converts in units of its own largest weight."""
    w = numbers(bench.weight(6, 8)) * np.array([1.0, 0.5, 0.3, 0.1, 0.7, 0.2])[:, None]
    w /= np.abs(w).max()
    top = np.abs(w).max(axis=1)
    parts = [(w / top[:, None], top)]
    yield _summed(bench, "forward", w, {"array.scaling": "column"}, parts)


def _reference(bench: Bench, direction: str) -> Iterator[Measured]:
    """The zero reference of the lines takes a static offset away, to rounding."""
    w = bench.weight(9, 16)
    x = bench.normal(20, drives(w.shape, direction), seed=1)
    tiles = {"array.rows": 7, "array.columns": 5}
    shifted = bench.build(w, {**tiles, f"{direction}.offset": 0.05})
    segments = 3 if direction == "forward" else 2
    zero = shifted.zero_reference(direction, 1)
    lines = 25 - drives(w.shape, direction)
    yield count("shape is not (segments, lines)", tuple(zero.shape) != (segments, lines))
    plain = read(shifted, direction, x)
    corrected = numbers(read(shifted, direction, x, reference=zero))
    want = product(numbers(w), direction, numbers(x))
    yield Measured("error with the reference", float(np.abs(corrected - want).max()),
                   256 * 12 * bench.eps)
    moved = float(np.abs(numbers(plain) - want).max())
    yield count("without it the offset does not show", moved < 0.1)


def _stage(bench: Bench) -> Iterator[Measured]:
    """What the settle loop is told of the converters."""
    for direction in DIRECTIONS:
        changes: dict[str, object] = {
            f"{direction}.dac_bits": 5, f"{direction}.adc_bits": 7, f"{direction}.output_range": 3.0
        }
        stage = bench.build(bench.weight(4, 3), changes).stage(direction)
        found = (stage.dac_steps, stage.adc_steps, stage.full_scale, stage.noisy)
        yield count(f"{direction}: found {found}", found != (15, 63, 3.0, False))
        noisy = bench.build(bench.weight(4, 3), {f"{direction}.line_noise": 0.01})
        yield count(f"{direction}: noise is not told", not noisy.stage(direction).noisy)


CHECKS = (
    *both(
        "converters", "dac-codes",
        "A DAC of b bits has 2^(b-1) - 1 codes a polarity and zero, and clips at its range.",
        TRUTH, _dac,
    ),
    *both(
        "converters", "dac-per-vector", "Per vector, the codes lie over the vector's own maximum.",
        TRUTH, _dac_per_vector,
    ),
    *both("converters", "dac-held", "Held, they lie over the range held.", TRUTH, _held),
    *both(
        "converters", "adc-codes",
        "An ADC of b bits has 2^(b-1) - 1 codes a polarity and zero, and clips at its full scale.",
        TRUTH, _adc,
    ),
    *both(
        "converters", "clipping", "Ranges without a resolution clip, and change nothing else.",
        "clipped input", _clipping,
    ),
    *both(
        "converters", "full-scale",
        "The full scale counts in (largest weight) x (range of the vector).", TRUTH, _rescale,
    ),
    *both(
        "converters", "tiles", "Every tile converts its own partial sum.", TRUTH, _tiles,
    ),
    *both(
        "converters", "slices", "Every slice converts its own partial sum.", TRUTH, _slices
    ),
    *both(
        "converters", "scaling-tile", "Scaled by tile, each converts in units of its own.", TRUTH,
        _scaling_tile,
    ),
    Check(
        "converters", "scaling-column", "Scaled by column, each output converts in its own units.",
        TRUTH, _scaling_column,
    ),
    *both(
        "converters", "zero-reference", "The zero reference takes a static offset away.",
        "the product in float64", _reference,
    ),
    Check(
        "converters", "stage", "stage() tells codes, full scale and noise of a direction.",
        "the card", _stage,
    ),
)  # fmt: skip
