"""Programming, saving and loading the 42.75M chip, and the memory that it holds.

Each case runs in a process of its own, because what a process once took from the system hides
what it takes later. Memory is resident memory after programming less that before, over the
float32 weights of the whole model.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from timing import machine, write_section

import eptsim

SHAPE = eptsim.Olmo2Shape(
    vocab_size=4096, hidden_size=512, intermediate_size=1408, num_hidden_layers=12,
    num_attention_heads=8,
)  # fmt: skip
FLAWS: dict[str, object] = {
    "array.rows": 512, "array.columns": 512,
    "cell.spread.g_min": 0.01, "cell.spread.g_max": 0.01,
    "cell.programming.sigma_linear": 0.01, "cell.programming.verify_tolerance": 0.05,
    "cell.retention.tau_s": 1e7, "cell.drift.compensation": "reference_read",
    "cell.stuck.random": 1e-3,
    "cell.flicker.sigma": 0.005, "transpose.offset_drift": 1e-3, "forward.offset_drift": 1e-3,
}  # fmt: skip
WIRES = {
    "array.rows": 256, "array.columns": 256, "array.wire_word_ohm": 1.0, "array.wire_bit_ohm": 1.0,
}  # fmt: skip
CASES = {
    "ideal cells": None,
    "every flaw, 512 x 512 tiles": FLAWS,
    "and wires as ladders, 256 x 256 tiles": {**FLAWS, **WIRES, "array.wire_model": "ladder"},
    "and wires exactly, 256 x 256 tiles": {**FLAWS, **WIRES},
}


def measure(title: str) -> None:
    """Program one chip, save it, load it; print the numbers as JSON."""
    changes = CASES[title]
    card = eptsim.load_card("ideal" if changes is None else "harsh").override(changes or {})
    model = eptsim.Olmo2(SHAPE, seed=0)
    eptsim.Crossbar(torch.ones(8, 8), card).read(torch.ones(1, 8))  # compile first
    before, start = _resident_mib(), time.perf_counter()
    chip = eptsim.Chip(model, card, on_program=_progress)
    programmed = time.perf_counter() - start
    held = _resident_mib() - before
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "chip.h5"
        start = time.perf_counter()
        chip.save(path)
        saved = time.perf_counter() - start
        size = path.stat().st_size / 2**20
        del chip
        start = time.perf_counter()
        eptsim.Chip.load(path)
        loaded = time.perf_counter() - start
    weights = sum(p.numel() for p in model.parameters()) * 4 / 2**20
    print(json.dumps([programmed, held / weights, saved, size, loaded]))


def _progress(done: int, total: int) -> None:
    print(f"\r{done} of {total} arrays", end="" if done < total else "\n", file=sys.stderr)


def _resident_mib() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) / 256


def main() -> None:
    """Measure every case in a process of its own; record."""
    rows = []
    for title in CASES:
        done = subprocess.run(
            [sys.executable, __file__, title], check=True, stdout=subprocess.PIPE, text=True
        )
        programmed, memory, saved, size, loaded = json.loads(done.stdout.splitlines()[-1])
        rows.append(
            f"| {title} | {programmed:.1f} s | {memory:.2f} | {saved:.1f} s | {size:.0f} MiB | "
            f"{loaded:.1f} s |"
        )
    write_section(
        "Programming the 42.75M chip",
        "`python benchmarks/bench_programming.py`: 60 arrays, differential pairs, float32. Memory: "
        "what the programmed chip holds, over the float32 weights of the whole model.\n\n"
        f"{machine()}\n\n"
        "| card | programming | memory | saving | file | loading |\n|---|---|---|---|---|---|\n"
        + "\n".join(rows),
    )


if __name__ == "__main__":
    if len(sys.argv) > 1:
        measure(sys.argv[1])
    else:
        main()
