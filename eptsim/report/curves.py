"""The offset study read back: one curve per place and method, over amplitudes and chip seeds."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from eptsim.base.errors import ResultsError
from eptsim.results.views import open_results, settings_of

Numbers = npt.NDArray[np.float64]

_MEASUREMENTS = {
    "one_sided": "EP one-sided",
    "centred": "EP centred",
    "frozen": "frozen (backprop in local variables)",
    "predictive_coding": "predictive coding",
}
_REFERENCES = ("none", "weight", "node", "line", "line+weight", "line+node")
_POLICIES = ("held", "per_vector", "fixed")
_PLACES = {"transpose": "transpose read", "node": "state node", "forward": "forward read"}


@dataclass(frozen=True)
class Curve:
    """One method at one place where an offset enters.

    ``data`` has the dimensions (seed, amplitude) and those of the results below them; NaN where a
    measurement was refused. ``first`` is the file of the first chip, settings and all.
    """

    entry: str
    measurement: str
    reference: str
    range_policy: str
    beta: float
    data: xr.Dataset
    first: xr.Dataset

    @property
    def place(self) -> str:
        """Where the offset enters, in words."""
        return _PLACES[self.entry]

    @property
    def measurement_words(self) -> str:
        """The measurement in words."""
        return _MEASUREMENTS.get(self.measurement, self.measurement)

    @property
    def label(self) -> str:
        """The method in words, for legends."""
        reference = "no reference" if self.reference == "none" else f"{self.reference} reference"
        words = self.range_policy.replace("_", "-")
        policy = "" if self.range_policy == "held" else f", {words} range"
        if self.measurement == "predictive_coding" and self.reference == "none":
            return f"{self.measurement_words} (β = {self.beta:g}){policy}"
        return f"{self.measurement_words}, {reference}{policy}"

    @property
    def amplitudes(self) -> tuple[float, ...]:
        """The offset's amplitudes, ascending, from 0."""
        return tuple(float(value) for value in self.data["amplitude"].values)

    def values(self, name: str) -> Numbers:
        """(seed, amplitude, ...) of one variable."""
        return np.asarray(self.data[name].values, dtype=np.float64)

    def middle(self, name: str) -> Numbers:
        """Median over the chips that were measured; NaN where all were refused."""
        return _over_seeds(np.nanmedian, self.values(name))

    def spread(self, name: str) -> tuple[Numbers, Numbers]:
        """Smallest and largest over the chips."""
        values = self.values(name)
        return _over_seeds(np.nanmin, values), _over_seeds(np.nanmax, values)

    def at(self, name: str, amplitude: float) -> float:
        """Median of a variable at one amplitude."""
        return float(self.middle(name)[self.amplitudes.index(amplitude)])

    @property
    def refused(self) -> Numbers:
        """Number of refused measurements at each amplitude."""
        refused = np.asarray(self.data["outcome"].values) == "refused"
        return np.asarray(refused.sum(axis=0), dtype=np.float64)

    @property
    def seeds(self) -> int:
        """Number of chips."""
        return int(self.data.sizes["seed"])


def _over_seeds(function: Callable[..., Any], values: Numbers) -> Numbers:
    found = np.full(values.shape[1:], np.nan)
    seen = ~np.isnan(values).all(axis=0)
    if seen.any():
        found[seen] = function(values[:, seen], axis=0)
    return found


def read_curves(paths: Iterable[str | os.PathLike[str]]) -> tuple[Curve, ...]:
    """Read the files of an offset study; curves by place, then by method.

    Raises
    ------
    ResultsError
        A file that cannot be read or holds something else, or no file.
    """
    groups: dict[tuple[str, str, str, str, float, tuple[float, ...]], list[xr.Dataset]] = {}
    for path in paths:
        data = open_results(path)
        settings = settings_of(data)
        if settings.get("kind") != "offset study":
            raise ResultsError(
                f"{path}: found the result of a {settings.get('kind')!r}, allowed: 'offset study'."
            )
        ep = settings["ep"]
        key = (
            str(settings["entry"]), str(ep["measurement"]), str(ep["reference"]),
            str(ep["range_policy"]), float(ep["beta"]), tuple(settings["amplitudes"]),
        )
        groups.setdefault(key, []).append(data)
    if not groups:
        raise ResultsError("offset study: found no result, allowed: 1 or more files.")
    curves = (
        Curve(*key[:5], xr.concat(found, dim="seed", combine_attrs="drop_conflicts"), found[0])
        for key, found in groups.items()
    )
    return tuple(sorted(curves, key=_order))


def _order(curve: Curve) -> tuple[object, ...]:
    """By place, then as tables and legends list the methods: the plainest first."""
    return (
        list(_PLACES).index(curve.entry), list(_MEASUREMENTS).index(curve.measurement),
        _POLICIES.index(curve.range_policy), _REFERENCES.index(curve.reference), curve.beta,
    )
