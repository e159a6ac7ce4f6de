"""What is free goes back to the system."""

from __future__ import annotations

import platform
from pathlib import Path

import numpy as np
import pytest

from eptsim.base.heap import give_back


def _resident_mib() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) / 256


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")
def test_free_memory_is_given_back() -> None:
    blocks = [np.ones(2**12) for _ in range(4096)]  # small ones, which stay on the heap
    held = _resident_mib()
    pins = blocks[::100]
    del blocks
    give_back()
    assert held - _resident_mib() > 100
    assert all(pin.all() for pin in pins)
