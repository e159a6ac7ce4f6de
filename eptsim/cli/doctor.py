"""``eptsim doctor``: what eptsim runs on here, and what stands in its way."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

import typer

from eptsim.base.errors import CardError
from eptsim.base.versions import AIHWKIT_TORCH, aihwkit_advice
from eptsim.cards import list_cards, load_card
from eptsim.cli.options import Json
from eptsim.cli.output import console, print_json, table

PACKAGES = (
    "eptsim",
    "torch",
    "numpy",
    "scipy",
    "numba",
    "h5py",
    "xarray",
    "h5netcdf",
    "pydantic",
    "tokenizers",
    "safetensors",
    "matplotlib",
    "jinja2",
)
MIN_MEMORY_GIB, MIN_DISK_GIB = 2.0, 1.0
STYLES = {"ok": "green", "note": "yellow", "fail": "red"}

# Runs in a process of its own: a build that does not match can crash the interpreter.
TILE = """
from aihwkit.simulator.configs import FloatingPointRPUConfig
from aihwkit.simulator.tiles import FloatingPointTile
import torch
weight = torch.tensor([[0.1, 0.2, 0.3], [-0.3, 0.2, -0.1]])
tile = FloatingPointTile(2, 3, FloatingPointRPUConfig())
tile.set_weights(weight)
x = torch.tensor([[1.0, -1.0, 0.5]])
found = tile.forward(x)
if not torch.allclose(found, x @ weight.T, atol=1e-6):
    raise SystemExit(f"a tile read {found.tolist()} instead of {(x @ weight.T).tolist()}")
"""


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the report."""

    name: str
    state: Literal["ok", "note", "fail"]
    """``fail`` stands in eptsim's way; ``note`` does not, but is worth knowing."""
    found: str
    advice: str = ""


def doctor(as_json: Json = False) -> None:
    """Show versions, threads, GPU, memory and disk, and exit with 1 if something is wrong."""
    checks = list(run_checks())
    failed = any(check.state == "fail" for check in checks)
    if as_json:
        print_json({"ok": not failed, "checks": [asdict(check) for check in checks]})
    else:
        made = table("", "what", "found")
        for check in checks:
            text = f"{check.found}\n{check.advice}" if check.advice else check.found
            style = STYLES[check.state]
            made.add_row(f"[{style}]{check.state}[/{style}]", check.name, text.replace("[", r"\["))
        console().print(made)
    if failed:
        raise typer.Exit(1)


def run_checks() -> Iterator[Check]:
    """Yield the checks, in the order of the report."""
    yield check_python()
    packages = [check_package(name) for name in PACKAGES]
    yield from packages
    if all(check.state == "ok" for check in packages):
        yield check_threads()
        yield check_numba()
        yield check_gpu()
        yield check_aihwkit()
    yield check_cards()
    yield check_memory()
    yield check_disk(Path.cwd())


def check_python() -> Check:
    """Python 3.11, because that is what the tested set of packages is for."""
    fine = sys.version_info[:2] == (3, 11)
    found = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    return Check("python", "ok" if fine else "fail", found, "" if fine else "eptsim needs 3.11")


def check_package(name: str) -> Check:
    """A package that eptsim cannot do without."""
    found = _installed(name)
    if found is None:
        return Check(name, "fail", "not installed", f"pip install {name}")
    return Check(name, "ok", found)


def check_threads() -> Check:
    """Cores that this process may use, and the threads that torch starts."""
    import torch

    cores = len(os.sched_getaffinity(0))
    threads = torch.get_num_threads()
    found = f"{cores} cores for this process, torch uses {threads} threads"
    if threads > cores:
        advice = f"more threads than cores are slow: set OMP_NUM_THREADS={cores}"
        return Check("threads", "note", found, advice)
    return Check("threads", "ok", found)


def check_numba() -> Check:
    """Compile and run one parallel kernel; that also fixes numba's threading layer."""
    import numba
    import numpy as np
    from numba.np.ufunc.parallel import threading_layer

    try:
        kernel = numba.njit(parallel=True)(_square)
        right = bool(np.all(kernel(np.arange(8.0)) == np.arange(8.0) ** 2))
        layer = threading_layer()  # type: ignore[no-untyped-call]
    except (numba.core.errors.NumbaError, ValueError, OSError, RuntimeError) as error:
        return Check("numba kernels", "fail", f"do not compile: {_last_line(str(error))}")
    found = f"threading layer {layer}, {numba.get_num_threads()} threads"
    return Check("numba kernels", "ok" if right else "fail", found if right else "wrong result")


def _square(x):  # type: ignore[no-untyped-def]  # compiled by check_numba
    return x * x


def check_gpu() -> Check:
    """The GPU that torch sees, used once. None is fine: everything runs on the CPU."""
    import torch

    if not torch.cuda.is_available():
        return Check("gpu", "note", "none that torch sees; everything runs on the CPU")
    try:
        total = float(torch.ones(8, device="cuda").sum())
    except RuntimeError as error:
        return Check("gpu", "fail", _last_line(str(error)), "use --device cpu")
    names = ", ".join(
        f"{torch.cuda.get_device_name(index)} "
        f"({torch.cuda.get_device_properties(index).total_memory / 2**30:.0f} GiB)"
        for index in range(torch.cuda.device_count())
    )
    return Check("gpu", "ok" if total == 8.0 else "fail", f"{names}, CUDA {torch.version.cuda}")


def check_aihwkit() -> Check:
    """Whether aihwkit, if installed, reads a small tile right with the installed torch."""
    aihwkit, torch = _installed("aihwkit"), _installed("torch")
    if aihwkit is None or torch is None:
        known, release = next(iter(AIHWKIT_TORCH.items()))
        advice = f"optional: pip install 'eptsim[aihwkit]' brings {known}, with torch {release}"
        return Check("aihwkit", "note", "not installed", advice)
    try:
        ran = subprocess.run(
            [sys.executable, "-c", TILE], capture_output=True, text=True, timeout=300, check=False
        )
        problem = _last_line(ran.stderr) or f"the process ended with {ran.returncode}"
        fine = ran.returncode == 0
    except subprocess.TimeoutExpired:
        problem, fine = "no answer in 300 s", False
    if fine:
        return Check("aihwkit", "ok", f"{aihwkit}, a tile reads right with torch {torch}")
    return Check(
        "aihwkit", "fail", f"{aihwkit} does not run: {problem}", aihwkit_advice(aihwkit, torch)
    )


def check_cards() -> Check:
    """The shipped cards are found, and every one can be read."""
    try:
        names = list_cards()
        for name in names:
            load_card(name)
    except CardError as error:
        return Check("device cards", "fail", str(error))
    return Check("device cards", "ok" if names else "fail", ", ".join(names) or "none found")


def check_memory() -> Check:
    """Memory that is free now."""
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                free = int(line.split()[1]) / 2**20
    except OSError:
        pass  # the free pages alone, without what the system would give back
    found = f"{free:.1f} of {total:.1f} GiB free"
    return Check("memory", "ok" if free >= MIN_MEMORY_GIB else "note", found)


def check_disk(folder: Path) -> Check:
    """Disk space that is free where results would go by default."""
    usage = shutil.disk_usage(folder)
    found = f"{usage.free / 2**30:.1f} of {usage.total / 2**30:.1f} GiB free in {folder}"
    return Check("disk", "ok" if usage.free / 2**30 >= MIN_DISK_GIB else "note", found)


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else ""
