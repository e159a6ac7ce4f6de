"""Reading results back: one task, or a folder of tasks side by side, as an xarray.Dataset."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from eptsim.base.errors import ResultsError
from eptsim.results.store import SUFFIX, identity_of, read_image, unreadable


def open_results(path: str | os.PathLike[str]) -> xr.Dataset:
    """Read one results file, or all of a folder, into memory.

    Parameters
    ----------
    path : path
        A file: its arrays and coordinates as they are. A folder: all its results side by side
        along a new dimension ``task``, in the order of their file names.

    Returns
    -------
    xarray.Dataset
        Variables carry ``units`` and ``long_name``. Of a file, ``attrs`` holds what the store
        writes; ``settings_of`` gives the settings. Of a folder, ``attrs`` holds what is the same
        for all tasks; the coordinate ``task`` is the hash, ``settings`` the settings JSON, and
        every scalar setting that differs is a coordinate along ``task`` under its dotted name
        (``settings.`` before it where the results use that name themselves). What a task did not
        measure is NaN.

    Raises
    ------
    ResultsError
        Nothing there, a broken or foreign file, or files whose variables do not fit together; the
        file is named.
    """
    source = Path(path)
    if not source.is_dir():
        return _open_file(source)
    files = sorted(f for f in source.glob(f"*{SUFFIX}") if not f.name.startswith("."))
    if not files:
        raise ResultsError(f"{source}: found no {SUFFIX} files, allowed: at least one result.")
    return _side_by_side(files, [_open_file(file) for file in files])


def settings_of(dataset: xr.Dataset) -> dict[str, Any]:
    """Return the settings of a dataset that :func:`open_results` read from one file.

    Raises
    ------
    ResultsError
        The dataset holds several tasks or was not read from a results file.
    """
    text = dataset.attrs.get("settings")
    if not isinstance(text, str):
        raise ResultsError(
            "settings_of: found a dataset without settings of its own, allowed: one from a single"
            " results file. Of a folder, use json.loads(dataset['settings'].values[i])."
        )
    settings: dict[str, Any] = json.loads(text)
    return settings


def flatten(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return ``{"ep.beta": 0.01, ...}``: dotted names to values that are not mappings."""
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        if isinstance(value, Mapping):
            flat.update(flatten(value, f"{prefix}{key}."))
        else:
            flat[prefix + key] = value
    return flat


def _open_file(path: Path) -> xr.Dataset:
    image = read_image(path)
    identity_of(path, image)
    try:
        with xr.open_dataset(
            io.BytesIO(image), engine="h5netcdf", decode_times=False, decode_timedelta=False
        ) as dataset:
            return dataset.load()
    except Exception as error:  # HDF5 and xarray answer bad content with many types
        raise unreadable(path, error) from error


def _side_by_side(files: Sequence[Path], datasets: Sequence[xr.Dataset]) -> xr.Dataset:
    _check_fit(files, datasets)
    try:
        joined = xr.concat(
            datasets,
            dim="task",
            data_vars="all",
            coords="different",
            compat="equals",
            join="outer",
            combine_attrs="drop_conflicts",
        )
    except Exception as error:  # xarray has several types for this
        raise ResultsError(
            f"{files[0].parent}: {len(files)} results do not fit together ({error}), allowed:"
            " variables with the same dimensions, of the same size or with coordinates."
        ) from error
    texts = [str(dataset.attrs["settings"]) for dataset in datasets]
    labels = {
        "task": ("task", [str(dataset.attrs["task"]) for dataset in datasets]),
        "settings": ("task", texts),
        **_differing([flatten(json.loads(text)) for text in texts], joined),
    }
    for name in ("task", "settings"):
        joined.attrs.pop(name, None)
    return joined.assign_coords(labels)


def _differing(tasks: Sequence[dict[str, Any]], joined: xr.Dataset) -> dict[str, Any]:
    """Coordinates along ``task`` for the scalar settings that are not the same everywhere."""
    taken = {str(name) for name in (*joined.variables, *joined.dims, "task", "settings")}
    found: dict[str, Any] = {}
    for name in sorted(set().union(*tasks)):
        values = [task.get(name) for task in tasks]
        if all(value == values[0] and type(value) is type(values[0]) for value in values):
            continue
        if not any(isinstance(value, list) for value in values):
            found[f"settings.{name}" if name in taken else name] = ("task", _column(values))
    return found


def _column(values: Sequence[Any]) -> np.ndarray[Any, Any]:
    """One array of scalars: numbers with NaN for null, booleans, or text."""
    kinds = {type(value) for value in values if value is not None}
    if kinds == {bool} and None not in values:
        return np.array(values, dtype=bool)
    if kinds == {int} and None not in values and all(abs(value) < 2**63 for value in values):
        return np.array(values, dtype=np.int64)
    if kinds <= {int, float}:
        return np.array([np.nan if value is None else value for value in values], dtype=float)
    return np.array([value if isinstance(value, str) else json.dumps(value) for value in values])


def _check_fit(files: Sequence[Path], datasets: Sequence[xr.Dataset]) -> None:
    """The same name must mean the same thing in every file."""
    first: dict[str, tuple[Path, xr.DataArray]] = {}
    for file, dataset in zip(files, datasets, strict=True):
        for key in dataset.variables:
            name, here = str(key), dataset[key]
            other, there = first.setdefault(name, (file, here))
            for what, a, b in (
                ("dimensions", here.dims, there.dims),
                ("units", here.attrs.get("units"), there.attrs.get("units")),
            ):
                if a != b:
                    raise ResultsError(
                        f"{file}: found {name!r} with {what} {a}, allowed: {b}, as in {other.name}."
                        " Open files of one kind together."
                    )
