"""Validation of single values: numbers, choices, and tables with their HDF5 files."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from pathlib import Path

import h5py

from eptsim.base.errors import CardError, InputError, nearest
from eptsim.base.table import Table
from eptsim.base.units import to_base, units_of
from eptsim.cards.schema import SCHEMA, Entry
from eptsim.cards.spec import Value

MOST_POINTS = 100_000
"""Of a table in a file."""

IDEAL = "ideal"
"""What a card or an override may write instead of a value; the same as None."""


def find_entry(key: object, origin: str) -> Entry:
    """Return the schema entry of a dotted key, or raise CardError with the nearest key."""
    entry = SCHEMA.get(key) if isinstance(key, str) else None
    if entry is None:
        raise CardError(
            f"{origin}: {key}: no such card entry, allowed: {', '.join(_close(str(key)))}."
            f"{nearest(str(key), SCHEMA)}"
        )
    return entry


def _close(key: str) -> list[str]:
    """The keys of the same section where there is one, else the sections."""
    section = key.rpartition(".")[0]
    same = [name for name in SCHEMA if section and name.rpartition(".")[0] == section]
    return same or sorted({f"{name.rpartition('.')[0]}.*" for name in SCHEMA})


def check_value(entry: Entry, value: object, origin: str) -> Value:
    """Return ``value`` (SI) as the type of the entry, or raise CardError.

    None and ``"ideal"`` give the entry's ideal value. NumPy scalars are taken as the Python
    number that they hold; bool, NaN and infinity are refused.
    """
    if value is None or (isinstance(value, str) and value == IDEAL):
        if not entry.spec.has_ideal:
            raise _refuse(entry, value, origin, " It has no ideal value.")
        return entry.default
    if entry.table:
        return check_table(entry, value, origin)
    if entry.choices:
        if isinstance(value, str) and value in entry.choices:
            return str(value)
        raise _refuse(entry, value, origin, nearest(str(value), entry.choices))
    number = _as_number(value)
    if number is None or not math.isfinite(number):
        raise _refuse(entry, value, origin)
    if entry.integer and number != int(number):
        raise _refuse(entry, value, origin)
    spec = entry.spec
    if not spec.low <= number <= spec.high or (spec.above_low and number == spec.low):
        zero_bits = number == 0 and entry.integer and spec.has_ideal
        note = " 0 does not mean ideal; leave the entry out, or give None." if zero_bits else ""
        raise _refuse(entry, value, origin, note)
    return int(number) if entry.integer else number + 0.0  # turns -0.0 into 0.0


def _as_number(value: object) -> float | None:
    """The real number that ``value`` holds, or None where it holds none."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return None
    try:
        return float(value)
    except (OverflowError, ValueError):
        return None


def show(value: object) -> str:
    """Return a short ``repr`` for a message, also of integers too long for Python to print."""
    try:
        shown = repr(value)
    except ValueError:
        return "a number too large to print"
    return shown if len(shown) <= 60 else f"{shown[:57]}..."


def _refuse(entry: Entry, value: object, origin: str, note: str = "") -> CardError:
    return CardError(f"{origin}: {entry.key}: found {show(value)}, allowed: {entry.allowed}.{note}")


def check_table(entry: Entry, value: object, origin: str) -> Table:
    """Return ``value``, a Table or the path of an HDF5 file that holds one, if its points fit."""
    if isinstance(value, str | Path):
        value = read_table(entry, Path(value), origin)
    if not isinstance(value, Table):
        raise _refuse(entry, value, origin, " Give a Table or the path of an HDF5 file.")
    spec = entry.spec
    for name, points in zip(spec.columns, (value.x, value.y), strict=True):
        bad = [point for point in points if not spec.low <= point <= spec.high]
        if bad:
            raise _refuse(entry, f"a {name} of {bad[0]:g}", origin)
    return value


def read_table(entry: Entry, path: Path, origin: str) -> Table:
    """Return the table in an HDF5 file: two 1-d datasets, each with a ``unit`` attribute.

    The datasets have the names in ``entry.spec.columns``. Raises CardError naming file, dataset,
    what was found and what is allowed.
    """
    where = f"{origin}: {entry.key}: {path}"
    spec = entry.spec
    try:
        with h5py.File(path, "r") as file:
            x, y = (
                _column(file, name, dimension, where)
                for name, dimension in zip(
                    spec.columns, (spec.x_dimension, spec.dimension), strict=True
                )
            )
    except OSError as error:
        raise CardError(
            f"{where}: found no HDF5 file ({error}), allowed: one with the datasets "
            f"{', '.join(spec.columns)}."
        ) from error
    return make_table(x, y, where)


def make_table(x: Sequence[float], y: Sequence[float], origin: str) -> Table:
    """Return the table of points in SI, or raise CardError."""
    try:
        return Table.of(x, y)
    except InputError as error:
        raise CardError(f"{origin}: {error}") from error


def _column(file: h5py.File, name: str, dimension: str, where: str) -> list[float]:
    data = file.get(name)
    if not isinstance(data, h5py.Dataset):
        raise CardError(
            f"{where}: {name}: found {'nothing' if data is None else 'a group'}, allowed: a "
            f"dataset. The file holds: {', '.join(file) or 'nothing'}.{nearest(name, list(file))}"
        )
    if data.ndim != 1 or data.dtype.kind not in "fiu":
        raise CardError(
            f"{where}: {name}: found shape {data.shape} of {data.dtype}, allowed: one dimension "
            "of numbers."
        )
    if data.size > MOST_POINTS:
        raise CardError(
            f"{where}: {name}: found {data.size} points, allowed: at most {MOST_POINTS}."
        )
    unit = data.attrs.get("unit")
    unit = unit.decode(errors="replace") if isinstance(unit, bytes) else unit
    if not isinstance(unit, str) or unit not in units_of(dimension):
        raise CardError(
            f"{where}: {name}: unit: found {'nothing' if unit is None else show(unit)}, allowed: "
            f"an attribute 'unit', one of {', '.join(units_of(dimension))}."
        )
    values = [float(value) for value in data[()]]
    if not all(math.isfinite(value) for value in values):
        raise CardError(f"{where}: {name}: found NaN or infinity, allowed: finite numbers.")
    return [to_base(value, unit, dimension) for value in values]
