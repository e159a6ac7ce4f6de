"""One array in an HDF5 file of its own; an array of a saved chip has the same group."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping

import torch

from eptsim.base.errors import InputError
from eptsim.base.h5 import reading, writing
from eptsim.cards import Card
from eptsim.cards.saved import changed_entries, check_exchange, put_card, read_card
from eptsim.crossbar.archive import ArrayState, write_array
from eptsim.crossbar.archive_read import ArrayReader
from eptsim.crossbar.checks import DEVICES

FORMAT = "eptsim-crossbar-1"
"""Attribute ``format`` of a saved crossbar."""


class CalibrationDropped(UserWarning):
    """A line calibration that does not hold for the converters of another card."""


def write_crossbar(
    path: str | os.PathLike[str], state: ArrayState, *, overwrite: bool = False
) -> None:
    """Write a crossbar; see ``Crossbar.save``."""
    with writing(path, FORMAT, overwrite=overwrite) as file:
        put_card(file, state.card)
        write_array(file.create_group("array"), state)


def read_crossbar(
    path: str | os.PathLike[str], card: Card | None, device: torch.device | str
) -> ArrayState:
    """Read what :func:`write_crossbar` wrote; see ``Crossbar.load``."""
    with reading(path, FORMAT) as root:
        saved = read_card(root)
        used = exchanged_card(saved, card, root.file)
        where = loading_device(device)
        state, dropped = ArrayReader(root.sub("array"), saved, used, where).read()
    warn_dropped(root.file, saved, used, {state.path: dropped})
    return state


def exchanged_card(saved: Card, asked: object, file: str) -> Card:
    """The card to load under: ``asked``, which may be None for the one saved.

    Raises
    ------
    InputError
        For what is no card.
    CardError
        For a card that differs in what made the cells.
    """
    if asked is None:
        return saved
    if not isinstance(asked, Card):
        raise InputError(
            f"load: card: found {type(asked).__name__}, allowed: a Card (eptsim.load_card) or None."
        )
    check_exchange(saved, asked, file)
    return asked


def loading_device(device: object) -> torch.device:
    """``device`` as one that torch has here; InputError else."""
    try:
        if not isinstance(device, str | torch.device):
            raise TypeError(f"{type(device).__name__}")
        found = torch.device(device)
        if found.type not in DEVICES:
            raise TypeError(f"a device of type {found.type}")
        torch.empty(0, device=found)
    except (RuntimeError, TypeError, AssertionError) as error:
        raise InputError(
            f"load: device: found {device!r} ({error}), allowed: 'cpu', or 'cuda' where there is "
            "one."
        ) from error
    return found


def warn_dropped(
    file: str, saved: Card, used: Card, dropped: Mapping[str, tuple[str, ...]]
) -> None:
    """Warn of the calibrations that loading under another card dropped, by array path."""
    changed = changed_entries(saved, used)
    for direction in ("forward", "transpose"):
        paths = [path for path, directions in dropped.items() if direction in directions]
        if not paths:
            continue
        entries = ", ".join(key for key in changed if key.startswith(f"{direction}."))
        more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
        warnings.warn(
            f"{file}: dropped the {direction} calibration of array {paths[0]!r}{more}, because "
            f"{entries} changed; call Crossbar.calibrate again.",
            CalibrationDropped,
            stacklevel=4,
        )
