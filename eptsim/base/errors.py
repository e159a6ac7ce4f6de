"""The errors that eptsim raises on purpose.

Every message says what was wrong, where, what was found and what is allowed.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class EptsimError(Exception):
    """Base of every error that eptsim raises on purpose."""


class InputError(EptsimError, ValueError):
    """An argument, file or setting that cannot be used as given."""


class ReadError(InputError):
    """A crossbar read whose input or result is not finite, or beyond what can be computed."""


class CardError(InputError):
    """A device card that cannot be read, or an override that names no card entry."""


class CheckpointError(InputError):
    """A model folder, or the file of a saved chip or array, that cannot be used or written."""


class TextError(InputError):
    """A text source or tokenizer that cannot be used."""


class ResultsError(EptsimError, OSError):
    """A results file or folder that cannot be read or written."""


class SettleError(EptsimError, RuntimeError):
    """A phase that did not settle, so its state is not a gradient.

    Attributes
    ----------
    phases : tuple
        The settle records of the phases that ran, the failed one last.
    """

    def __init__(self, message: str, phases: tuple[object, ...] = ()) -> None:
        super().__init__(message)
        self.phases = phases


def nearest(name: str, allowed: Iterable[str]) -> str:
    """Return ``" Did you mean 'x'?"`` for the closest allowed name, or an empty string."""
    match = difflib.get_close_matches(name, list(allowed), n=1, cutoff=0.5)
    return f" Did you mean {match[0]!r}?" if match else ""


def choice(value: object, allowed: Iterable[str], what: str) -> str:
    """Return ``value`` if it is one of ``allowed``; else raise InputError naming ``what``."""
    names = list(allowed)
    if isinstance(value, str) and value in names:
        return value
    raise InputError(
        f"{what}: found {value!r}, allowed: {', '.join(names)}.{nearest(str(value), names)}"
    )
