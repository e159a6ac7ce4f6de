"""Reading text and token files: plain text, JSON lines, nanoGPT token files, the built-in text."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from eptsim.base.errors import TextError, nearest
from eptsim.olmo2.tokenizer import check_unicode

TEXT_SUFFIXES = (".txt", ".jsonl")
"""Files that hold text."""

BUILT_IN = "pydoc_data.topics"
"""The source used where none is given: the help texts of CPython, 466 kB of English prose."""

_ALLOWED = ".txt (UTF-8 text), .jsonl (one JSON object a line), .bin (uint16 tokens)"


def source_name(path: str | os.PathLike[str] | None) -> str:
    """Return the name of a source without its folder."""
    return BUILT_IN if path is None else Path(path).name


def load_text(path: str | os.PathLike[str] | None = None, field: str | None = None) -> str:
    """Return the text of a file, or CPython's own help texts where no ``path`` is given.

    Parameters
    ----------
    path : path, optional
        A ``.txt`` file in UTF-8, or a ``.jsonl`` file with one JSON object a line. The texts of a
        ``.jsonl`` file are joined with a blank line; its empty lines are skipped.
    field : str, optional
        For ``.jsonl``: the field that holds the text ("text" where None).

    Raises
    ------
    TextError
        A missing file, a folder, another suffix, bytes that are not UTF-8 (the offset is named),
        a bad JSON line (its number is named), or no text but white space.
    """
    if path is None:
        if field is not None:
            raise TextError(f"field: found {field!r} without a file, allowed only for .jsonl.")
        return _built_in()
    source = Path(path)
    suffix = source.suffix.lower()
    if suffix == ".bin":
        raise TextError(f"{source}: found a token file, allowed for text: .txt, .jsonl.")
    _check_file(source)
    if field is not None and suffix != ".jsonl":
        raise TextError(f"{source}: found field {field!r}, allowed only for .jsonl files.")
    data = _read(source)
    text = _json_lines(source, data, field or "text") if suffix == ".jsonl" else _utf8(source, data)
    if not text.strip():
        raise TextError(
            f"{source}: found {len(text)} characters, none but white space; allowed: any text."
        )
    return text


def load_tokens(
    path: str | os.PathLike[str], vocab_size: int | None = None
) -> npt.NDArray[np.uint16]:
    """Map a ``.bin`` file of little-endian uint16 tokens, as nanoGPT writes it; (N,), read-only.

    Raises
    ------
    TextError
        A missing file, a folder, another suffix, an empty file, an odd number of bytes, or a token
        at or above ``vocab_size`` (its position is named).
    """
    source = Path(path)
    _check_file(source)
    if source.suffix.lower() != ".bin":
        raise TextError(f"{source}: found suffix {source.suffix!r}, allowed for tokens: .bin.")
    size = source.stat().st_size
    if size == 0 or size % 2:
        raise TextError(
            f"{source}: found {size} bytes, allowed: a positive even number (uint16 tokens)."
        )
    try:
        tokens = np.memmap(source, dtype="<u2", mode="r")
    except OSError as error:
        raise TextError(f"{source}: cannot be read ({error.strerror}).") from error
    if vocab_size is not None and int(tokens.max()) >= vocab_size:
        place = int(np.argmax(tokens >= vocab_size))
        raise TextError(
            f"{source}: found token {int(tokens[place])} at position {place} (largest:"
            f" {int(tokens.max())}), allowed: 0 to {vocab_size - 1}."
        )
    return tokens


def _built_in() -> str:
    from pydoc_data.topics import topics  # half a megabyte, wanted only here

    return "\n".join(topics[name] for name in sorted(topics))


def _check_file(source: Path) -> None:
    if source.is_dir():
        raise TextError(f"{source}: found a folder, allowed: a file; {_ALLOWED}.")
    if not source.exists():
        raise TextError(f"{source}: no such file.")
    suffix = source.suffix.lower()
    if suffix not in (*TEXT_SUFFIXES, ".bin"):
        raise TextError(
            f"{source}: found suffix {source.suffix!r}, allowed: {_ALLOWED}."
            f"{nearest(suffix, (*TEXT_SUFFIXES, '.bin'))}"
        )
    if not source.is_file():
        raise TextError(f"{source}: found no regular file, allowed: {_ALLOWED}.")


def _read(source: Path) -> bytes:
    try:
        return source.read_bytes()
    except OSError as error:
        raise TextError(f"{source}: cannot be read ({error.strerror}).") from error


def _utf8(source: Path, data: bytes) -> str:
    try:
        return data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise TextError(
            f"{source}: found byte 0x{data[error.start]:02x} at offset {error.start}, which is not"
            f" UTF-8 ({error.reason}); allowed: UTF-8 text."
        ) from error


def _json_lines(source: Path, data: bytes, field: str) -> str:
    lines = _utf8(source, data).split("\n")
    texts = [
        _json_text(f"{source}, line {number}", line, field)
        for number, line in enumerate(lines, start=1)
        if line.strip()
    ]
    return "\n\n".join(texts)


def _json_text(where: str, line: str, field: str) -> str:
    try:
        record: Any = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise TextError(f"{where}: not JSON ({error}), allowed: one JSON object a line.") from error
    if not isinstance(record, dict):
        raise TextError(f"{where}: found a JSON {_json_type(record)}, allowed: an object.")
    if field not in record:
        raise TextError(
            f"{where}: found no field {field!r}, found: {', '.join(sorted(record)) or 'none'}."
            f"{nearest(field, record)}"
        )
    text = record[field]
    if not isinstance(text, str):
        raise TextError(f"{where}, field {field!r}: found {_json_type(text)}, allowed: a string.")
    check_unicode(text, f"{where}, field {field!r}")
    return text


def _json_type(value: object) -> str:
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    names = {int: "number", float: "number", str: "string", list: "array", dict: "object"}
    return names[type(value)]
