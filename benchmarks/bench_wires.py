"""The wires of a tile, exactly, against one sparse nodal solve of the same circuit for one vector.

Single tiles and a batch, on one thread and on all; the ladder model against the exact one; and
the time that all tiles of the 42.75M model's chip take. Where two calls are compared they are
timed in turn, A B A B, and the ratio is the median of the pairs.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numba
import numpy as np
import scipy.sparse
import torch
from scipy.sparse.linalg import spsolve
from timing import interleaved, machine, write_section

import eptsim
from eptsim.crossbar.wire_ladder import ladder_conductance
from eptsim.crossbar.wires import Array

R_WORD_OHM, R_BIT_OHM = 1.0, 2.0
TILES, SIZE = 1176, 256
"""12 blocks of 3,211,264 weights, as differential pairs, on tiles of 256 x 256."""


def nodal_system(g: Array, v: Array) -> tuple[scipy.sparse.csc_array, Array]:
    """Nodal matrix of the circuit and its sources, word-line nodes first."""
    rows, columns = g.shape
    word = np.arange(rows * columns).reshape(rows, columns)
    bit = word + word.size
    ends, values = [], []
    for a, b, y in (
        (word, bit, g),
        (word[:, 1:], word[:, :-1], np.full((rows, columns - 1), 1 / R_WORD_OHM)),
        (bit[1:], bit[:-1], np.full((rows - 1, columns), 1 / R_BIT_OHM)),
    ):
        a, b, y = a.ravel(), b.ravel(), y.ravel()
        ends += [(a, a), (b, b), (a, b), (b, a)]
        values += [y, y, -y, -y]
    for node, y in ((word[:, 0], 1 / R_WORD_OHM), (bit[-1], 1 / R_BIT_OHM)):
        ends.append((node, node))
        values.append(np.full(node.size, y))
    i, j = (np.concatenate(part) for part in zip(*ends, strict=True))
    shape = (2 * word.size, 2 * word.size)
    source = np.zeros(2 * word.size)
    source[word[:, 0]] = v / R_WORD_OHM
    return scipy.sparse.coo_array((np.concatenate(values), (i, j)), shape=shape).tocsc(), source


def exact(g: Array) -> Array:
    return eptsim.effective_conductance(g, R_WORD_OHM, R_BIT_OHM)


def fastest(call: Callable[[], object], repeats: int) -> float:
    """Seconds of the fastest of some calls."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def against_spsolve(generator: np.random.Generator) -> list[str]:
    rows = []
    for size, repeats in ((64, 40), (128, 20), (256, 5)):
        g, v = generator.uniform(1e-6, 1e-4, (size, size)), generator.normal(size=size)
        y, source = nodal_system(g, v)
        want = spsolve(y, source)[-size:] / R_BIT_OHM
        off = np.abs(v @ exact(g) - want).max() / np.abs(want).max()
        a, b, ratio = interleaved(
            lambda g=g: exact(g), lambda y=y, source=source: spsolve(y, source), repeats
        )
        rows.append(
            f"| {size} x {size} | {a * 1e3:.1f} ms | {b * 1e3:.0f} ms | {ratio:.3f} | {off:.0e} |"
        )
    return rows


def threads_and_chip(generator: np.random.Generator) -> list[str]:
    rows = []
    batch = generator.uniform(1e-6, 1e-4, (8, SIZE, SIZE))
    for threads in range(1, numba.config.NUMBA_NUM_THREADS + 1):
        numba.set_num_threads(threads)
        one = fastest(lambda: exact(batch[0]), 10)
        eight = fastest(lambda: exact(batch), 5) / 8
        start, used = time.perf_counter(), time.process_time()
        for _ in range(TILES // 8):
            exact(batch)
        chip, used = time.perf_counter() - start, time.process_time() - used
        rows.append(
            f"| {threads} | {one * 1e3:.0f} ms | {eight * 1e3:.0f} ms | {chip:.0f} s "
            f"| {used:.0f} s |"
        )
    return rows


def ladder(generator: np.random.Generator) -> list[str]:
    rows = []
    for size in (128, 256):
        g = generator.uniform(1e-6, 1e-4, (size, size))
        a, b, ratio = interleaved(
            lambda g=g: ladder_conductance(g, R_WORD_OHM, R_BIT_OHM), lambda g=g: exact(g), 20
        )
        off = np.abs(ladder_conductance(g, R_WORD_OHM, R_BIT_OHM) - exact(g)).max() / g.max()
        rows.append(
            f"| {size} x {size} | {a * 1e3:.2f} ms | {b * 1e3:.1f} ms | {ratio:.3f} | {off:.1e} |"
        )
    return rows


def main() -> None:
    """Time, print and record."""
    numba.set_num_threads(1)
    torch.set_num_threads(1)
    generator = np.random.default_rng(0)
    exact(generator.uniform(1e-6, 1e-4, (9, 9)))
    solve, approximate = against_spsolve(generator), ladder(generator)
    chip = threads_and_chip(generator)
    write_section(
        "Wires of a tile",
        "`python benchmarks/bench_wires.py`: cells of 1 to 100 uS, 1 ohm per word-line and 2 ohm "
        "per bit-line segment, float64.\n\n" + machine() + "\n\n"
        "The exact matrix, which serves every vector, against one spsolve of the nodal matrix "
        "for one vector. One thread; medians in turn; difference of the "
        "currents, over the largest.\n\n"
        "| tile | exact matrix | spsolve, one vector | ratio | difference |\n"
        "|---|---|---|---|---|\n" + "\n".join(solve) + "\n\n"
        f"Tiles of {SIZE} x {SIZE}: one alone, each of a batch of 8 (fastest of 10 and of 5), and "
        f"all {TILES} of the 42.75M model's chip (differential pairs), in batches of 8, by "
        "the clock and in processor time, which is what counts on a machine that others use. One "
        "tile is solved on one thread.\n\n"
        "| threads | one tile | per tile of a batch | chip | processor time |\n"
        "|---|---|---|---|---|\n"
        + "\n".join(chip) + "\n\n"
        "The ladder model against the exact one; largest difference over the largest "
        "conductance.\n\n"
        "| tile | ladder | exact | ratio | difference |\n|---|---|---|---|---|\n"
        + "\n".join(approximate),
    )


if __name__ == "__main__":
    main()
