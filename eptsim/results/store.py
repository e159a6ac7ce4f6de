"""The results store: one HDF5 file per finished task, complete or not there at all.

A file is built in memory, written under a temporary name beside its target, flushed to the disk and
renamed. It follows the netCDF-4 form of HDF5 (dimension scales), so plain h5py, xarray and HDFView
all read it. Attributes of the file:

``settings`` (canonical JSON), ``task`` (its hash), ``card_text`` and ``card_sha256``, ``seed``,
``eptsim_version`` and the like, ``git_commit``, ``format``, and whatever else the task gives. Every
dataset has ``units`` and ``long_name``.

After the HDF5 part comes a line with its SHA-256, which HDF5 ignores. It is checked before HDF5
sees the bytes: a flipped bit could otherwise change a number, or hang the HDF5 library.
"""

from __future__ import annotations

import hashlib
import io
import os
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from eptsim.base.errors import ResultsError
from eptsim.base.sealed import SEAL_LENGTH, complete_file, seal_of
from eptsim.results.identity import canonical_json, task_hash
from eptsim.results.provenance import collect_provenance
from eptsim.results.variable import Variable, check_names, is_text

__all__ = [
    "FORMAT",
    "SUFFIX",
    "Variable",
    "is_done",
    "read_identity",
    "result_path",
    "write_result",
]

FORMAT = "eptsim-result-1"
"""Value of the ``format`` attribute of every results file."""

SUFFIX = ".h5"
"""How the name of a finished result ends. Unfinished ones start with a dot and end in .tmp."""

_NO_VARIABLE = "This is a netCDF dimension but not a netCDF variable.%10d"
_RESERVED = ("settings", "task", "seed", "format", "card_text", "card_sha256", "coordinates")


def result_path(folder: str | os.PathLike[str], settings: Mapping[str, Any]) -> Path:
    """Return where the result of ``settings`` is or will be: ``folder/<task hash>.h5``."""
    return Path(folder) / (task_hash(settings) + SUFFIX)


def is_done(folder: str | os.PathLike[str], settings: Mapping[str, Any]) -> bool:
    """Tell whether the finished result of ``settings`` is in ``folder``.

    Raises
    ------
    ResultsError
        Its file is there but broken or foreign: it is named, and must be removed to run again.
    """
    path = result_path(folder, settings)
    if not path.exists():
        return False
    if read_identity(path) != canonical_json(settings):
        raise ResultsError(f"{path}: holds the settings of another task; remove it to run again.")
    return True


def read_identity(path: str | os.PathLike[str]) -> str:
    """Return the canonical settings JSON of a results file.

    Raises
    ------
    ResultsError
        Missing, truncated, changed or foreign file.
    """
    return identity_of(path, read_image(path))


def read_image(path: str | os.PathLike[str]) -> bytes:
    """Return the HDF5 bytes of a results file, its checksum verified; errors as read_identity."""
    try:
        data = Path(path).read_bytes()
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from error
    image, trailer = data[:-SEAL_LENGTH], data[-SEAL_LENGTH:]
    if trailer != seal_of(image):
        raise ResultsError(
            f"{path}: found {len(data)} bytes that do not end in their checksum: cut short, changed"
            " since, or not a file that eptsim wrote. Remove it to run its task again."
        )
    return image


def identity_of(path: str | os.PathLike[str], image: bytes) -> str:
    """Return the settings JSON in the bytes of a file; ``path`` only names it in errors."""
    try:
        with h5py.File(io.BytesIO(image), "r") as file:
            found, settings = file.attrs.get("format"), file.attrs.get("settings")
    except Exception as error:  # HDF5 answers bad bytes with many types
        raise unreadable(path, error) from error
    if found != FORMAT or not isinstance(settings, str):
        raise ResultsError(
            f"{path}: found format {found!r}, allowed: {FORMAT!r}; not a file that eptsim wrote."
        )
    return settings


def unreadable(path: str | os.PathLike[str], error: Exception) -> ResultsError:
    """The error for a file that HDF5 cannot read."""
    reason = f"{type(error).__name__}: {error}"
    return ResultsError(
        f"{path}: cannot be read as a results file ({reason[:300]}), allowed: a complete HDF5 file"
        " that eptsim wrote. Remove it to run its task again."
    )


def write_result(
    folder: str | os.PathLike[str],
    settings: Mapping[str, Any],
    arrays: Mapping[str, Variable],
    coords: Mapping[str, Variable] | None = None,
    attributes: Mapping[str, str | int | float | bool] | None = None,
    *,
    seed: int | None = None,
    card_text: str | None = None,
) -> Path:
    """Write the finished result of a task and return its path.

    Parameters
    ----------
    folder : path
        Made where missing.
    settings : mapping
        The resolved settings, JSON-able: the identity of the task. The card's hash belongs in
        them, since a card can change while its name does not.
    arrays, coords : mapping of str to Variable
        The numbers, and what counts along their dimensions. A coord with the name of a dimension
        labels it; others describe.
    attributes : mapping, optional
        More file attributes: strings, numbers, booleans.
    seed : int, optional
        Recorded as ``seed``.
    card_text : str, optional
        The TOML text of the device card; recorded with its SHA-256.

    Raises
    ------
    InputError
        Settings that have no canonical JSON.
    ResultsError
        A bad name, dimension or attribute, or a file that cannot be written (it is named); nothing
        is left behind then.
    """
    path = result_path(folder, settings)
    image = _image(arrays, coords or {}, _attributes(settings, attributes or {}, seed, card_text))
    _replace(path, image + seal_of(image))
    return path


def _attributes(
    settings: Mapping[str, Any],
    extra: Mapping[str, str | int | float | bool],
    seed: int | None,
    card_text: str | None,
) -> dict[str, str | int | float | bool]:
    found: dict[str, str | int | float | bool] = {
        "format": FORMAT,
        "task": task_hash(settings),
        "settings": canonical_json(settings),
        **collect_provenance(),
    }
    if seed is not None:
        found["seed"] = seed
    if card_text is not None:
        found["card_text"] = card_text
        found["card_sha256"] = hashlib.sha256(card_text.encode("utf-8", "replace")).hexdigest()
    for name, value in extra.items():
        if name in found or name in _RESERVED or name.startswith("_") or not name:
            raise ResultsError(f"attribute {name!r}: the name is taken or not allowed.")
        if not isinstance(value, (str, int, float, bool)):
            raise ResultsError(
                f"attribute {name!r}: found {type(value).__name__}, allowed: a string, number or"
                " boolean."
            )
        found[name] = value
    for name, value in found.items():
        _check_attribute(name, value)
    return found


def _check_attribute(name: str, value: str | int | float | bool) -> None:
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ResultsError(f"attribute {name!r}: found {value}, allowed: 64-bit integers.")
    if isinstance(value, str) and not is_text(value):
        raise ResultsError(
            f"attribute {name!r}: found NUL or a lone surrogate in its text, allowed: neither."
        )


def _image(
    arrays: Mapping[str, Variable],
    coords: Mapping[str, Variable],
    attributes: Mapping[str, str | int | float | bool],
) -> bytes:
    """Return the bytes of the HDF5 file."""
    sizes = check_names(arrays, coords)
    # the 1.8 format has checksums on its metadata, and every tool reads it
    with h5py.File(
        uuid.uuid4().hex, "w", driver="core", backing_store=False, libver=("v108", "v110")
    ) as file:
        for name, value in attributes.items():
            file.attrs[name] = value
        labels = [name for name in coords if name not in sizes]
        if labels:
            file.attrs["coordinates"] = " ".join(labels)
        for number, (dim, size) in enumerate(sizes.items()):
            if dim in coords:
                _dataset(file, dim, coords[dim]).make_scale(dim)
            else:
                file.create_dataset(dim, shape=(size,), dtype=">f4").make_scale(_NO_VARIABLE % size)
            file[dim].attrs["_Netcdf4Dimid"] = np.int32(number)
        for name, variable in (*arrays.items(), *((name, coords[name]) for name in labels)):
            dataset = _dataset(file, name, variable)
            for axis, dim in enumerate(variable.dims):
                dataset.dims[axis].attach_scale(file[dim])
        file.flush()
        return bytes(file.id.get_file_image())


def _dataset(file: h5py.File, name: str, variable: Variable) -> h5py.Dataset:
    data = variable.data
    kind: Any = data.dtype.newbyteorder("=")
    if kind.kind == "U":
        data, kind = data.astype(object), h5py.string_dtype("utf-8")
    elif kind.kind == "b":
        data, kind = data.astype(np.int8), np.dtype(np.int8)
    if data.size > 1 and kind.kind != "O":  # filters take neither scalars nor strings
        dataset = file.create_dataset(
            name,
            data=data,
            dtype=kind,
            chunks=True,
            compression="gzip",
            compression_opts=4,
            shuffle=True,
        )
    else:
        dataset = file.create_dataset(name, data=data, dtype=kind)
    dataset.attrs["units"] = variable.unit
    dataset.attrs["long_name"] = variable.description
    if variable.data.dtype.kind == "b":
        dataset.attrs["dtype"] = "bool"
    return dataset


def _replace(path: Path, data: bytes) -> None:
    """Put ``data`` at ``path``, whole or not at all."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with complete_file(path) as temporary, temporary.open("xb") as file:
            file.write(data)
    except OSError as error:
        raise ResultsError(
            f"{path}: cannot be written ({error.strerror or error}), {len(data)} bytes; allowed: a"
            " folder that can be written to, with room for them."
        ) from error
