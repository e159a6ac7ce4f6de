"""Files that appear complete or not at all, and end in a checksum of themselves.

The seal is one line after the content, which HDF5 ignores: ``eptsim sha256`` and 64 hexadecimal
digits. It is checked before HDF5 sees the bytes: a flipped bit could otherwise change a number, or
hang the HDF5 library.
"""

from __future__ import annotations

import hashlib
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

SEAL_LENGTH = 15 + 64 + 1
"""Bytes of a seal."""

_BLOCK = 2**22


@contextmanager
def complete_file(path: Path) -> Iterator[Path]:
    """Yield a temporary name beside ``path``, which takes its place when the body is done.

    The temporary file is flushed to the disk first. Where the body or a step after it fails, the
    file is removed and ``path`` is as it was. Unfinished files start with a dot and end in .tmp.

    Raises
    ------
    OSError
        The folder cannot be written to, or is full.
    """
    temporary = path.parent / f".{path.stem}.{uuid.uuid4().hex}.tmp"
    try:
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    with suppress(OSError):  # some network file systems cannot; the file itself is safe
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def seal_of(content: bytes) -> bytes:
    """The seal that ends a file of ``content``."""
    return _line(hashlib.sha256(content).hexdigest())


def append_seal(path: Path) -> None:
    """Add the seal of its content to a file, read block by block."""
    digest, _ = _digest(path, path.stat().st_size)
    with path.open("ab") as file:
        file.write(_line(digest))


def is_sealed(path: Path) -> bool:
    """Tell whether a file ends in the seal of what comes before.

    Raises
    ------
    OSError
        The file cannot be read.
    """
    size = path.stat().st_size - SEAL_LENGTH
    if size < 0:
        return False
    digest, rest = _digest(path, size)
    return rest == _line(digest)


def _line(digest: str) -> bytes:
    return b"\neptsim sha256 " + digest.encode("ascii") + b"\n"


def _digest(path: Path, size: int) -> tuple[str, bytes]:
    """SHA-256 of the first ``size`` bytes of a file, and what follows them."""
    found = hashlib.sha256()
    with path.open("rb") as file:
        left = size
        while left > 0 and (block := file.read(min(left, _BLOCK))):
            found.update(block)
            left -= len(block)
        return found.hexdigest(), file.read(SEAL_LENGTH + 1)
