"""Which builds of compiled dependencies belong together."""

from __future__ import annotations

AIHWKIT_TORCH = {"1.1.0": "2.10"}
"""aihwkit's wheel for Python 3.11, and the one torch release that it is built against."""


def aihwkit_advice(aihwkit: str, torch: str) -> str:
    """Return which versions of aihwkit and torch belong together, and how to install them.

    Parameters
    ----------
    aihwkit, torch
        The installed versions, such as ``"1.1.0"`` and ``"2.13.0+cu128"``.
    """
    built = AIHWKIT_TORCH.get(aihwkit)
    known, release = next(iter(AIHWKIT_TORCH.items()))
    if built is None:
        need = f"eptsim is tested with aihwkit {known} and torch {release}"
    elif matches(torch, built):
        need = f"aihwkit {aihwkit} and torch {torch} belong together, so this install is damaged"
    else:
        need = f"aihwkit {aihwkit} is built against torch {built} and only that, found {torch}"
    return f"{need}: pip install --force-reinstall 'aihwkit=={known}' 'torch=={release}.*'"


def matches(version: str, release: str) -> bool:
    """Tell whether ``"2.10.0+cu128"`` belongs to the release ``"2.10"``."""
    return f"{version.partition('+')[0]}.".startswith(f"{release}.")
