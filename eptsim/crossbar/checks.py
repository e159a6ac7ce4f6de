"""What the arguments of a crossbar have to be: each check raises InputError or returns."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch

from eptsim.base.errors import InputError, choice
from eptsim.cards.check import show
from eptsim.crossbar.stages import Position

DTYPES = (torch.float32, torch.float64)
DEVICES = ("cpu", "cuda")
MOST = 2**32
BACKENDS = ("eptsim", "aihwkit")


def check_weight(weight: object, path: str) -> None:
    """Refuse a weight that is not a finite, non-empty matrix of float32 or float64.

    ``path`` names the array, for the message.
    """
    name = f"array {path!r}: weight"
    if not isinstance(weight, torch.Tensor):
        raise InputError(f"{name}: found {type(weight).__name__}, allowed: torch.Tensor.")
    if weight.layout != torch.strided or weight.device.type not in DEVICES:
        raise InputError(
            f"{name}: found {weight.layout} on {weight.device}, allowed: torch.strided on "
            f"{' or '.join(DEVICES)}."
        )
    if weight.dim() != 2 or 0 in weight.shape:
        raise InputError(
            f"{name}: found shape {tuple(weight.shape)}, allowed: a non-empty matrix (out, in)."
        )
    if weight.dtype not in DTYPES:
        raise InputError(f"{name}: found {weight.dtype}, allowed: torch.float32, torch.float64.")
    if not torch.isfinite(weight).all():
        raise InputError(f"{name}: found NaN or infinity, allowed: finite numbers.")


def check_backend(backend: object, rpu_config: object, where: str) -> None:
    """Refuse an unknown backend, and a configuration that it does not take or lacks."""
    name = choice(backend, BACKENDS, f"{where}: backend")
    if (rpu_config is None) == (name == "aihwkit"):
        raise InputError(
            f"{where}: rpu_config: found {type(rpu_config).__name__} with backend {name!r}, "
            "allowed: a configuration of aihwkit with backend 'aihwkit', None else."
        )


def check_alone(others: Mapping[str, object]) -> None:
    """Refuse what the backend ``aihwkit`` does not take, where it is given; by its name."""
    for name, value in others.items():
        if value is not None:
            raise InputError(
                f"Crossbar: {name}: found {type(value).__name__} with backend 'aihwkit', allowed: "
                "None; rpu_config describes those tiles."
            )


def check_vectors(
    x: object, name: str, inner: int, shape: tuple[int, int], like: torch.Tensor
) -> None:
    """Refuse vectors ``x`` that are not (..., inner) with dtype and device of ``like``.

    ``shape`` (out, in) is the weight's, for the message.
    """
    if not isinstance(x, torch.Tensor):
        raise InputError(f"{name}: found {type(x).__name__}, allowed: torch.Tensor.")
    if x.dim() < 1 or x.shape[-1] != inner:
        raise InputError(
            f"{name}: found shape {tuple(x.shape)}, allowed: (..., {inner}) for a weight of "
            f"shape {shape} (out, in)."
        )
    if x.dtype != like.dtype or x.device != like.device or x.layout != like.layout:
        raise InputError(
            f"{name}: found {x.dtype}, {x.layout} on {x.device}, allowed: {like.dtype}, "
            f"{like.layout} on {like.device}, as the weight."
        )


def check_reference(reference: object, like: torch.Tensor) -> None:
    """Refuse a zero reference that does not look ``like`` a direction's offsets; None may pass."""
    if reference is None:
        return
    if not isinstance(reference, torch.Tensor):
        raise InputError(
            f"reference: found {type(reference).__name__}, allowed: torch.Tensor or None."
        )
    found = (reference.shape, reference.dtype, reference.device)
    if found != (like.shape, like.dtype, like.device):
        raise InputError(
            f"reference: found {tuple(reference.shape)}, {reference.dtype} on {reference.device}, "
            f"allowed: {tuple(like.shape)} (segments, lines), {like.dtype} on {like.device}, as "
            "zero_reference returns it."
        )


def check_position(position: object) -> None:
    """Refuse what is no place in the random streams; None may pass."""
    if position is not None and not isinstance(position, Position):
        raise InputError(
            f"position: found {type(position).__name__}, allowed: eptsim.crossbar.stages.Position "
            "or None."
        )


def check_count(value: object, name: str) -> int:
    """``value`` if it is an integer from 1 to 2^32, as many as a stream has rows."""
    if (
        isinstance(value, int | np.integer)
        and not isinstance(value, bool)
        and 1 <= int(value) <= MOST
    ):
        return int(value)
    raise InputError(f"{name}: found {show(value)}, allowed: an integer from 1 to 2^32.")


def check_range(value: object, name: str, dtype: torch.dtype) -> float:
    """``value`` if it is a number above 0 that ``dtype`` holds."""
    plain = value.item() if isinstance(value, np.number) else value
    if (
        isinstance(plain, int | float)
        and not isinstance(plain, bool)
        and 0 < plain <= torch.finfo(dtype).max
    ):
        return float(plain)
    raise InputError(f"{name}: found {show(value)}, allowed: a number above 0 within {dtype}.")
