"""Wires and terminals: reads against circuits solved node by node, and against a published one."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from eptsim.testing.bench import DIRECTIONS, Array, Bench, matrix, numbers
from eptsim.testing.check import Check, Measured
from eptsim.testing.nodal import Resistances, transfer

G_MIN_S, G_MAX_S = 1e-6, 1e-4
SPAN_S = G_MAX_S - G_MIN_S
G = {"cell.g_min_s": G_MIN_S, "cell.g_max_s": G_MAX_S}
TRUTH = "nodal analysis of the circuit (sparse LU)"

#: Five word lines, four bit lines, 10 to 200 ohm between them; segments of 1 and 2 ohm. Currents
#: (A) of the bit lines for two sets of drives (V), and of the word lines for 1 V on every bit line.
PUBLISHED_OHM = np.arange(10.0, 210.0, 10.0).reshape(5, 4)
PUBLISHED_WIRES = Resistances(word=1.0, bit=2.0)
PUBLISHED_V = np.array([[0.0, 1.0, 2.0, 3.0, 4.0], [3.0, 2.0, -1.0, 2.0, 3.0]])
PUBLISHED_A = np.array([
    [0.0605701967, 0.0593276107, 0.0563487388, 0.0533523546],
    [0.1527467529, 0.1087237054, 0.0871995284, 0.0744660844],
])
PUBLISHED_TRANSPOSE_A = np.array([0.0916942, 0.03754019, 0.02628677, 0.02141616, 0.01880918])


def _expected(w: Array, mapping: str, ohms: Resistances, rows: int, columns: int) -> Array:
    """The matrix (out, in) that tiles of ``rows`` x ``columns`` perfect cells show through wires.

    Each polarity of a differential pair has a sub-array of its own. ``w`` has largest magnitude 1.
    """
    if mapping == "differential":
        parts = [G_MIN_S + SPAN_S * np.maximum(sign * w, 0.0) for sign in (1, -1)]
    else:
        parts = [0.5 * (G_MIN_S + G_MAX_S) + 0.5 * SPAN_S * w]
    seen = [np.zeros_like(w) for _ in parts]
    for g_s, target in zip(parts, seen, strict=True):
        for o in range(0, w.shape[0], columns):
            for i in range(0, w.shape[1], rows):
                tile = g_s[o : o + columns, i : i + rows]
                target[o : o + columns, i : i + rows] = transfer(tile.T, ohms).T
    if mapping == "differential":
        return np.asarray((seen[0] - seen[1]) / SPAN_S)
    return np.asarray(2.0 * (seen[0] - 0.5 * (G_MIN_S + G_MAX_S)) / SPAN_S)


def _against_nodal(
    bench: Bench, ohms: Resistances, mapping: str, shapes: tuple[tuple[int, int], ...]
) -> Iterator[Measured]:
    rows, columns = 12, 8
    for shape in shapes:
        w = bench.weight(*shape)
        changes = {
            **G, **ohms.changes(), "array.mapping": mapping, "array.rows": rows,
            "array.columns": columns,
        }  # fmt: skip
        array = bench.build(w, changes)
        want = _expected(numbers(w), mapping, ohms, rows, columns)
        for direction in DIRECTIONS:
            off = float(np.abs(matrix(bench, array, direction) - want).max())
            yield Measured(f"{shape} {direction}: entries", off, 64 * bench.eps + 1e-10)


def _nodal(name: str, ohms: Resistances, mapping: str) -> Check:
    def run(bench: Bench) -> Iterator[Measured]:
        return _against_nodal(bench, ohms, mapping, ((8, 12), (5, 9), (11, 30)))

    claim = f"{name.capitalize()} resistance acts as in the circuit, mapping '{mapping}'."
    return Check("circuits", f"{name}-{mapping}", claim, TRUTH, run)


def _published(bench: Bench) -> Iterator[Measured]:
    """The offset mapping holds the 20 conductances themselves, the end points among them."""
    g_s = 1.0 / PUBLISHED_OHM
    low, high = float(g_s.min()), float(g_s.max())
    span, middle = high - low, 0.5 * (high + low)
    w = bench.tensor((2.0 * (g_s - middle) / span).T)
    changes = {
        "cell.g_min_s": low, "cell.g_max_s": high, "array.mapping": "offset",
        **PUBLISHED_WIRES.changes(),
    }  # fmt: skip
    array = bench.build(w, changes)
    seen = [0.5 * span * matrix(bench, array, d) + middle for d in DIRECTIONS]
    off = np.abs(PUBLISHED_V @ seen[0].T - PUBLISHED_A).max()
    limit = 64 * bench.eps * float(np.abs(PUBLISHED_V).sum(axis=1).max()) * high
    yield Measured("forward: current, A", float(off), limit + 1e-9)
    off = np.abs(seen[1].sum(axis=0) - PUBLISHED_TRANSPOSE_A).max()
    yield Measured("transpose: current, A", float(off), limit + 6e-9)  # 8 decimals


def _reciprocity(bench: Bench) -> Iterator[Measured]:
    ohms = Resistances(word=20.0, bit=7.0, driver=100.0, sense=40.0)
    for mapping in ("differential", "reference_column", "offset"):
        for shape in ((9, 16), (16, 9)):
            changes = {
                **G, **ohms.changes(), "array.mapping": mapping, "array.rows": 7,
                "array.columns": 5,
            }  # fmt: skip
            array = bench.build(bench.weight(*shape), changes)
            forward, transpose = (matrix(bench, array, direction) for direction in DIRECTIONS)
            off = float(np.abs(forward - transpose).max())
            yield Measured(f"{mapping} {shape}: entries", off, 32 * bench.eps)


def _ladder(bench: Bench) -> Iterator[Measured]:
    """Exact to first order: half the resistance leaves a quarter of the error."""
    w = bench.weight(8, 12)
    errors, effects = [], []
    for part in (1.0, 0.5):
        ohms = Resistances(20.0 * part, 10.0 * part, 50.0 * part, 30.0 * part)
        array = bench.build(w, {**G, **ohms.changes(), "array.wire_model": "ladder"})
        want = _expected(numbers(w), "differential", ohms, 12, 8)
        found = [matrix(bench, array, direction) for direction in DIRECTIONS]
        errors.append(max(float(np.abs(one - want).max()) for one in found))
        effects.append(float(np.abs(want - numbers(w)).max()))
        off = float(np.abs(found[0] - found[1]).max())
        yield Measured("the two directions apart", off, 32 * bench.eps)
    yield Measured("error over that of twice the resistance", errors[1] / errors[0], 0.35)
    yield Measured("error over the effect of the wires", errors[1] / effects[1], 0.5)


def _no_wires(bench: Bench) -> Iterator[Measured]:
    """A resistance of nearly nothing is no resistance, one of nearly everything lets nothing by."""
    w = bench.weight(8, 12)
    for direction in DIRECTIONS:
        thin = bench.build(w, {**G, **Resistances(1e-6, 1e-6, 1e-6, 1e-6).changes()})
        off = float(np.abs(matrix(bench, thin, direction) - numbers(w)).max())
        yield Measured(f"{direction}: 1 microohm", off, 32 * bench.eps + 1e-8)
        blocked = bench.build(w, {**G, **Resistances(word=1e9, bit=1e9).changes()})
        left = float(np.abs(matrix(bench, blocked, direction)).max())
        yield Measured(f"{direction}: what passes 1 gigaohm", left, 1e-3)


WORD, BIT, BOTH = Resistances(word=20.0), Resistances(bit=30.0), Resistances(20.0, 7.0)
DRIVER, SENSE = Resistances(driver=500.0), Resistances(sense=300.0)
ALL = Resistances(20.0, 7.0, 100.0, 40.0)
CHECKS = (
    Check(
        "circuits", "published", "A published 5 x 4 circuit carries the published currents.",
        "the currents, 10 digits", _published,
    ),
    _nodal("word-line", WORD, "offset"),
    _nodal("bit-line", BIT, "offset"),
    _nodal("wire", BOTH, "offset"),
    _nodal("wire", BOTH, "differential"),
    _nodal("driver", DRIVER, "offset"),
    _nodal("sense", SENSE, "offset"),
    _nodal("wire-and-terminal", ALL, "differential"),
    Check(
        "circuits", "reciprocity", "Through wires, the transposed read sees the transpose.",
        "the forward read", _reciprocity,
    ),
    Check(
        "circuits", "ladder", "The ladder model is exact to first order in the resistance.",
        TRUTH, _ladder,
    ),
    Check(
        "circuits", "limits", "Wires of no resistance change nothing, blocked ones pass nothing.",
        "no wires", _no_wires,
    ),
)  # fmt: skip
