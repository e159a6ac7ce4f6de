"""A task is its settings: their canonical JSON, and the hash that names its file."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any

from eptsim.base.errors import InputError

HASH_LENGTH = 16
"""Hexadecimal digits of a task's hash: 64 bits."""

_DEEPEST = 32


def canonical_json(settings: Mapping[str, Any]) -> str:
    """Return the one JSON text of ``settings``: keys sorted, floats by repr, no spaces, ASCII.

    Tuples count as lists. 1, 1.0 and true are three different values, as in JSON.

    Raises
    ------
    InputError
        A value that JSON has no form for (NaN and the infinities among them), a key that is not a
        string, or nesting beyond 32 levels; the dotted key is named.
    """
    if not isinstance(settings, Mapping):
        raise InputError(f"settings: found {type(settings).__name__}, allowed: a mapping.")
    return json.dumps(
        _plain(settings, "settings", 0),
        sort_keys=True,
        separators=(",", ":"),
        ensure_ascii=True,
        allow_nan=False,
    )


def task_hash(settings: Mapping[str, Any]) -> str:
    """Return the identity of a task: 16 hexadecimal digits of the SHA-256 of its canonical JSON.

    Whatever changes a result belongs in the settings, the hash of the device card included.

    Raises
    ------
    InputError
        As :func:`canonical_json`.
    """
    return hashlib.sha256(canonical_json(settings).encode("ascii")).hexdigest()[:HASH_LENGTH]


def _plain(value: object, where: str, depth: int) -> object:
    """Return ``value`` in JSON's own types."""
    if depth > _DEEPEST:
        raise InputError(f"{where[:80]}...: nested too deep, allowed: {_DEEPEST} levels.")
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise InputError(f"{where}: found the key {key!r}, allowed: strings.")
        return {str(k): _plain(v, f"{where}.{k}", depth + 1) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item, f"{where}[{i}]", depth + 1) for i, item in enumerate(value)]
    return _scalar(value, where)


def _scalar(value: object, where: str) -> object:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, int):
        if value.bit_length() > 1024:
            raise InputError(f"{where}: found an integer beyond 2^1024, allowed: smaller ones.")
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InputError(f"{where}: found {value!r}, allowed: finite numbers.")
        return float(value)
    raise InputError(
        f"{where}: found {value!r} ({type(value).__name__}), allowed: null, booleans, integers,"
        " finite floats, strings, lists and mappings with string keys."
    )
