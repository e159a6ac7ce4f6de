"""The units that data files may use, and their conversion to SI.

One closed table. A unit is known by its symbol alone (``uS``, ``ns``, ``kohm``); bits, counts and
fractions have units too (``bit``, ``1``, ``percent``), so that every number in a file carries one.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from eptsim.base.errors import InputError, nearest


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit: its symbol, what it measures, and how many base units it is worth."""

    symbol: str
    dimension: str
    factor: Decimal


def _table() -> dict[str, Unit]:
    scales: dict[str, dict[str, str]] = {
        "conductance": {"S": "1", "mS": "1e-3", "uS": "1e-6", "nS": "1e-9", "pS": "1e-12"},
        "resistance": {"ohm": "1", "mohm": "1e-3", "kohm": "1e3", "Mohm": "1e6", "Gohm": "1e9"},
        "voltage": {"V": "1", "mV": "1e-3", "uV": "1e-6"},
        "current": {"A": "1", "mA": "1e-3", "uA": "1e-6", "nA": "1e-9"},
        "time": {
            "s": "1",
            "ms": "1e-3",
            "us": "1e-6",
            "ns": "1e-9",
            "ps": "1e-12",
            "min": "60",
            "h": "3600",
            "day": "86400",
        },
        "dimensionless": {"1": "1", "percent": "1e-2"},
        "bits": {"bit": "1"},
    }
    return {
        symbol: Unit(symbol, dimension, Decimal(factor))
        for dimension, symbols in scales.items()
        for symbol, factor in symbols.items()
    }


UNITS: dict[str, Unit] = _table()
"""Every unit by symbol. The first of each dimension is its base unit, worth exactly 1."""

DIMENSIONS: tuple[str, ...] = tuple(dict.fromkeys(unit.dimension for unit in UNITS.values()))
"""What can be measured: conductance, resistance, voltage, current, time, ..."""


def units_of(dimension: str) -> tuple[str, ...]:
    """Return the symbols of one dimension, its base unit first.

    Raises
    ------
    InputError
        The dimension is not in the table.
    """
    if dimension not in DIMENSIONS:
        raise InputError(
            f"dimension: found {dimension!r}, allowed: {', '.join(DIMENSIONS)}."
            f"{nearest(str(dimension), DIMENSIONS)}"
        )
    return tuple(unit.symbol for unit in UNITS.values() if unit.dimension == dimension)


def base_unit(dimension: str) -> str:
    """Return the symbol of the unit that values of ``dimension`` have inside eptsim."""
    return units_of(dimension)[0]


def to_base(value: float, unit: str, dimension: str) -> float:
    """Convert ``value`` in ``unit`` to the base unit of ``dimension``.

    The product is formed in decimal, so 25 uS is the float nearest to 2.5e-5 and not
    25 * 1e-6, which is one rounding away from it.

    Raises
    ------
    InputError
        The unit is unknown, or measures something else than ``dimension``.
    """
    allowed = units_of(dimension)
    if unit not in allowed:
        raise InputError(
            f"unit: found {unit!r}, allowed for a {dimension}: {', '.join(allowed)}."
            f"{nearest(str(unit), allowed)}"
        )
    return float(Decimal(repr(float(value))) * UNITS[unit].factor)
