"""Named, checked values in an HDF5 group: written with units and axes, read back or refused."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt

from eptsim.base.errors import CheckpointError, EptsimError, InputError
from eptsim.base.sealed import append_seal, complete_file, is_sealed

_BROKEN = (OSError, RuntimeError, KeyError, ValueError, TypeError)
"""What HDF5 answers damaged content with."""


def put_array(
    group: h5py.Group,
    name: str,
    data: npt.NDArray[Any],
    *,
    units: str,
    axes: Iterable[str],
    about: str,
    compress: bool = False,
) -> None:
    """Write one dataset with its units, the names of its axes and a line about it."""
    if compress:
        dataset = group.create_dataset(
            name, data=data, chunks=True, shuffle=True, compression="gzip", compression_opts=1
        )
    else:
        dataset = group.create_dataset(name, data=data)
    for axis, label in enumerate(axes):
        dataset.dims[axis].label = label
    dataset.attrs["units"] = units
    dataset.attrs["long_name"] = about


@dataclass(frozen=True)
class Reader:
    """One group of an open file.

    Attributes
    ----------
    file : str
        The file, for messages.
    group : h5py.Group

    Raises
    ------
    CheckpointError
        From every method: it names file, place, what was found and what is allowed.
    """

    file: str
    group: h5py.Group

    def refuse(self, name: str, found: str, allowed: str) -> CheckpointError:
        """The error for what stands at ``name``, a dataset or attribute of this group."""
        where = f"{self.group.name.rstrip('/')}/{name}"
        return CheckpointError(f"{self.file}: {where}: found {found}, allowed: {allowed}.")

    def sub(self, name: str) -> Reader:
        """The group ``name``."""
        try:
            found = self.group.get(name)
        except _BROKEN as error:
            raise self._damaged(name, error) from error
        if not isinstance(found, h5py.Group):
            raise self.refuse(name, "nothing" if found is None else "a dataset", "a group")
        return Reader(self.file, found)

    def names(self) -> tuple[str, ...]:
        """Names of what the group holds."""
        return tuple(self.group)

    def array(
        self,
        name: str,
        shape: tuple[int, ...],
        dtype: str,
        units: str,
        *,
        least: float = -math.inf,
        above: float = -math.inf,
    ) -> npt.NDArray[Any]:
        """A dataset of finite numbers, every one at least ``least`` and greater than ``above``."""
        try:
            dataset = self.group.get(name)
            if not isinstance(dataset, h5py.Dataset):
                found = "nothing" if dataset is None else "a group"
                raise self.refuse(name, found, f"a dataset of {shape} {dtype}")
            has = dataset.attrs.get("units")
            if has != units:
                raise self.refuse(name, f"units {_words(has)}", f"{units!r}")
            if dataset.shape != shape or dataset.dtype != np.dtype(dtype):
                found = f"{dataset.dtype} of shape {dataset.shape}"
                raise self.refuse(name, found, f"{dtype} of shape {shape}")
            data = np.asarray(dataset[()])
        except CheckpointError:
            raise
        except _BROKEN as error:
            raise self._damaged(name, error) from error
        if not np.isfinite(data).all():
            raise self.refuse(name, "NaN or infinity", "finite numbers")
        low = float(data.min()) if data.size else math.inf
        if low < least or low <= above:
            allowed = f"{least:g} or more" if low < least else f"more than {above:g}"
            raise self.refuse(name, f"{low:g}", allowed)
        return data

    def text(self, name: str, allowed: Iterable[str] | None = None) -> str:
        """An attribute that is a text, one of ``allowed`` where they are given."""
        value = self._attribute(name)
        names = None if allowed is None else tuple(allowed)
        if not isinstance(value, str) or (names is not None and value not in names):
            raise self.refuse(name, _words(value), "a text" if names is None else ", ".join(names))
        return value

    def flag(self, name: str) -> bool:
        """An attribute that is true or false."""
        value = self._attribute(name)
        if not isinstance(value, bool | np.bool_):
            raise self.refuse(name, _words(value), "true or false")
        return bool(value)

    def integer(self, name: str) -> int:
        """An attribute that is an integer, 0 or more."""
        value = self._attribute(name)
        if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 0:
            raise self.refuse(name, _words(value), "an integer, 0 or more")
        return int(value)

    def number(self, name: str, *, least: float = 0.0, above: float = -math.inf) -> float:
        """An attribute that is a number in [``least``, inf], greater than ``above``."""
        value = self._attribute(name)
        if not isinstance(value, float | np.floating) or not (value >= least and value > above):
            bound = f"more than {above:g}" if above >= least else f"{least:g} or more"
            raise self.refuse(name, _words(value), f"a number, {bound}")
        return float(value)

    def integers(self, name: str) -> tuple[int, ...]:
        """An attribute that is a list of integers."""
        found = self._attribute(name)
        value = np.asarray(found)
        if value.ndim != 1 or value.dtype.kind not in "iu":
            raise self.refuse(name, _words(found), "a list of integers")
        return tuple(int(item) for item in value)

    def holds(self, name: str) -> bool:
        """Whether there is a dataset, group or attribute ``name``."""
        return name in self.group or name in self.group.attrs

    def _attribute(self, name: str) -> object:
        try:
            return self.group.attrs.get(name)
        except _BROKEN as error:
            raise self._damaged(name, error) from error

    def _damaged(self, name: str, error: Exception) -> CheckpointError:
        return self.refuse(name, f"damage ({type(error).__name__}: {error})", "what eptsim wrote")


def _words(value: object) -> str:
    text = "nothing" if value is None else repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


@contextmanager
def writing(path: str | os.PathLike[str], form: str, *, overwrite: bool) -> Iterator[h5py.File]:
    """Yield a new HDF5 file that takes its place at ``path``, sealed, when the body is done.

    Parameters
    ----------
    path : path
        Its folder is made where missing.
    form : str
        Attribute ``format`` of the file, such as ``eptsim-chip-1``.
    overwrite : bool
        Whether a file at ``path`` may be replaced.

    Raises
    ------
    CheckpointError
        A file is there already, or none can be written; nothing is left behind then.
    """
    target = file_path(path)
    if not isinstance(overwrite, bool):
        raise InputError(f"overwrite: found {overwrite!r}, allowed: True or False.")
    if target.exists() and not overwrite:
        raise CheckpointError(
            f"{target}: found a file there already, allowed: a new name, or overwrite=True."
        )
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with complete_file(target) as temporary:
            # the 1.8 format has checksums on its metadata, and every tool reads it
            with h5py.File(temporary, "x", libver=("v108", "v110")) as file:
                file.attrs["format"] = form
                for package in ("eptsim", "torch", "numpy", "h5py"):
                    file.attrs[f"{package}_version"] = _version(package)
                yield file
            append_seal(temporary)
    except EptsimError:
        raise
    except (OSError, RuntimeError, ValueError) as error:
        raise CheckpointError(
            f"{target}: cannot be written ({error}), allowed: a folder that can be written to, "
            "with room for the file."
        ) from error


@contextmanager
def reading(path: str | os.PathLike[str], form: str) -> Iterator[Reader]:
    """Yield the root of a file that :func:`writing` made with the same ``form``.

    Raises
    ------
    CheckpointError
        Missing, cut short, changed, foreign, or of another form.
    """
    target = file_path(path)
    try:
        sealed = is_sealed(target)
    except OSError as error:
        reason = error.strerror or str(error)
        raise CheckpointError(f"{target}: cannot be read ({reason}).") from error
    if not sealed:
        raise CheckpointError(
            f"{target}: found bytes that do not end in their checksum, allowed: a file that "
            "eptsim saved, not cut short and not changed since."
        )
    try:
        file = h5py.File(target, "r", locking=False)  # sealed: nobody writes to it
    except _BROKEN as error:
        raise CheckpointError(f"{target}: found no HDF5 ({error}), allowed: {form}.") from error
    with file:
        root = Reader(str(target), file)
        root.text("format", [form])
        yield root


def file_path(path: object) -> Path:
    """``path`` as a Path; CheckpointError where it is none."""
    if isinstance(path, str | os.PathLike):
        return Path(path)
    raise CheckpointError(f"path: found {type(path).__name__}, allowed: str or Path.")


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "unknown"
