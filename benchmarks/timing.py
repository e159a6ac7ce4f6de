"""Timing two calls in turn, and keeping the numbers in RESULTS.md."""

from __future__ import annotations

import platform
import re
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch

RESULTS = Path(__file__).parent / "RESULTS.md"


def interleaved(
    a: Callable[[], object], b: Callable[[], object], repeats: int, warmup: int = 3
) -> tuple[float, float, float]:
    """Median seconds of ``a`` and of ``b``, timed in turn, and the median ratio pair by pair."""
    for _ in range(warmup):
        a()
        b()
    times: list[tuple[float, float]] = []
    for _ in range(repeats):
        start = time.perf_counter()
        a()
        middle = time.perf_counter()
        b()
        times.append((middle - start, time.perf_counter() - middle))
    return (
        statistics.median(t[0] for t in times),
        statistics.median(t[1] for t in times),
        statistics.median(t[0] / t[1] for t in times),
    )


def machine() -> str:
    """The processor, thread count and versions that the numbers belong to."""
    name = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists() and (found := re.search(r"model name\s*:\s*(.+)", info.read_text())):
        name = found[1]
    return f"Machine: {name}, {torch.get_num_threads()} threads, torch {torch.__version__}."


def write_section(title: str, text: str) -> None:
    """Replace the section ``title`` of RESULTS.md, or append it; print it too."""
    old = RESULTS.read_text() if RESULTS.exists() else "# Measured\n"
    section = f"## {title}\n\n{text.strip()}\n"
    parts = re.split(r"(?m)^(?=## )", old)
    kept = [p for p in parts if not p.startswith(f"## {title}\n")]
    RESULTS.write_text("\n".join(p.rstrip() + "\n" for p in [*kept, section]))
    print(section)


if __name__ == "__main__":
    raise SystemExit("timing.py is a helper; run the bench_*.py files")
