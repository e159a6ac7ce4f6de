"""One named array of a result: its data, its dimensions, its unit, and what it is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import numpy.typing as npt

from eptsim.base.errors import ResultsError

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.+-]*")
_KINDS = "boolean, integer, float32, float64, or string"
_TIME_WORDS = {
    "days": "day",
    "hours": "h",
    "minutes": "min",
    "seconds": "s",
    "milliseconds": "ms",
    "microseconds": "us",
    "nanoseconds": "ns",
}

RESERVED = ("task", "settings")
"""Names that a folder of results uses for itself."""


@final
@dataclass(frozen=True, eq=False)
class Variable:
    """One array of a result.

    Attributes
    ----------
    data : ndarray
        Booleans, integers, float32, float64 or strings. NaN means "not measured".
    dims : tuple of str
        One name per axis of ``data``; () for a scalar.
    unit : str
        Symbol of the unit: "1" for a plain number, "s", "J", "nat", ...
    description : str
        One line on what the numbers are.

    Raises
    ------
    ResultsError
        Data of another kind, dimensions that do not fit it, or no unit.
    """

    data: npt.NDArray[Any]
    dims: tuple[str, ...]
    unit: str
    description: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.data, (np.ndarray, np.generic, bool, int, float, str, list, tuple)):
            raise ResultsError(
                f"variable data: found {type(self.data).__name__}, allowed: an ndarray."
            )
        data = np.asarray(self.data)
        object.__setattr__(self, "data", data)
        object.__setattr__(self, "dims", tuple(self.dims))
        kind = data.dtype
        if kind.kind not in "biuU" and kind.newbyteorder("=") not in (np.float32, np.float64):
            raise ResultsError(f"variable data: found dtype {kind}, allowed: {_KINDS}.")
        if kind.kind == "U" and not all(is_text(text) for text in data.flat):
            raise ResultsError(
                "variable data: found a string with NUL or a lone surrogate, allowed: neither."
            )
        if len(self.dims) != data.ndim or len(set(self.dims)) != data.ndim:
            raise ResultsError(
                f"variable dims: found {self.dims} for data of shape {data.shape}, allowed: one"
                " name of its own per axis."
            )
        if not is_text(self.unit) or not self.unit.strip():
            raise ResultsError(
                f'variable unit: found {self.unit!r}, allowed: a symbol; "1" for a plain number.'
            )
        if self.unit in _TIME_WORDS or " since " in self.unit:
            # readers of the CF conventions turn these numbers into dates
            symbol = _TIME_WORDS.get(self.unit, "s")
            raise ResultsError(f"variable unit: found {self.unit!r}, allowed: {symbol!r}.")
        if not is_text(self.description):
            raise ResultsError(
                f"variable description: found {self.description!r}, allowed: text without NUL."
            )


def is_text(value: object) -> bool:
    """Tell whether ``value`` is a string that HDF5 can hold: no NUL, no lone surrogate."""
    if not isinstance(value, str) or "\0" in value:
        return False
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _is_name(value: object) -> bool:
    return isinstance(value, str) and bool(_NAME.fullmatch(value)) and value not in RESERVED


def check_names(arrays: Mapping[str, Variable], coords: Mapping[str, Variable]) -> dict[str, int]:
    """Return the size of every dimension of a result.

    Raises
    ------
    ResultsError
        A name that HDF5, netCDF and xarray do not all take, one used twice, or a dimension with
        two sizes.
    """
    sizes: dict[str, int] = {}
    owner: dict[str, str] = {}
    for name, variable in (*arrays.items(), *coords.items()):
        if not isinstance(variable, Variable):
            raise ResultsError(
                f"result {name!r}: found {type(variable).__name__}, allowed: Variable."
            )
        for used in (name, *variable.dims):
            if not _is_name(used):
                raise ResultsError(
                    f"result name: found {used!r}, allowed: letters, digits and _ . + - after a"
                    f" letter or _, and none of {', '.join(RESERVED)}."
                )
        if name in arrays and name in coords:
            raise ResultsError(f"result {name!r}: found among arrays and coords, allowed: one.")
        for dim, size in zip(variable.dims, variable.data.shape, strict=True):
            if sizes.setdefault(dim, size) != size:
                raise ResultsError(
                    f"result {name!r}: found size {size} along {dim!r}, allowed: {sizes[dim]}, its"
                    f" size in {owner[dim]!r}."
                )
            owner.setdefault(dim, name)
    for name, variable in (*arrays.items(), *coords.items()):
        if name in sizes and (variable.dims != (name,) or name in arrays):
            raise ResultsError(
                f"result {name!r}: has the name of a dimension; allowed: only in coords, with"
                f" dims ({name!r},)."
            )
    return sizes
