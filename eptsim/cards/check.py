"""Validation of single values, and of entries that only make sense together."""

from __future__ import annotations

import math
import numbers
from collections.abc import Mapping, Set

from eptsim.base.errors import CardError, nearest
from eptsim.cards.schema import SCHEMA, Entry, Value

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


def check_together(values: Mapping[str, Value], given: Set[str], origin: str) -> None:
    """Raise CardError where checked values contradict each other or one would do nothing.

    Parameters
    ----------
    values
        A checked value for every key of the schema.
    given
        The keys that the card or an override sets. A strength set to 0 on purpose is fine
        (a sweep begins there); one that was left out while its law is set is not.
    origin
        Where the values come from, for the message.
    """
    g_min, g_max = _number(values, "cell.g_min_s"), _number(values, "cell.g_max_s")
    if not g_min < g_max:
        raise CardError(
            f"{origin}: cell.g_min_s: found {g_min:g} S, allowed: below cell.g_max_s = {g_max:g} S."
        )
    _check_read_noise(values, given, origin)
    _check_drift(values, given, origin)
    low, high = _number(values, "cell.stuck.low"), _number(values, "cell.stuck.high")
    if low + high > 1.0:
        raise CardError(
            f"{origin}: cell.stuck.low, cell.stuck.high: found {low:g} + {high:g}, "
            "allowed: a sum of at most 1."
        )


def _check_read_noise(values: Mapping[str, Value], given: Set[str], origin: str) -> None:
    law, sigma = values["cell.read_noise.law"], _number(values, "cell.read_noise.sigma")
    if law == "none" and sigma != 0.0:
        raise CardError(
            f"{origin}: cell.read_noise.sigma: found {sigma:g} while cell.read_noise.law is "
            "'none', so it would do nothing; allowed: 0, or set the law to 'constant' or "
            "'proportional' too."
        )
    if law != "none" and "cell.read_noise.sigma" not in given:
        raise CardError(
            f"{origin}: cell.read_noise.law: found {law!r} without cell.read_noise.sigma, so it "
            "would do nothing; allowed: 'none', or set the sigma too."
        )


def _check_drift(values: Mapping[str, Value], given: Set[str], origin: str) -> None:
    if given.isdisjoint({"cell.drift.nu", "cell.drift.nu_sigma"}):
        for key in ("cell.drift.time_s", "cell.drift.t0_s"):
            if key in given:
                raise CardError(
                    f"{origin}: {key}: found {_number(values, key):g} s without cell.drift.nu or "
                    "cell.drift.nu_sigma, so it would do nothing; allowed: set one of them too."
                )
    time_s, t0_s = _number(values, "cell.drift.time_s"), _number(values, "cell.drift.t0_s")
    if time_s < t0_s:
        raise CardError(
            f"{origin}: cell.drift.time_s: found {time_s:g} s, allowed: at least "
            f"cell.drift.t0_s = {t0_s:g} s."
        )


def _number(values: Mapping[str, Value], key: str) -> float:
    value = values[key]
    assert isinstance(value, float)
    return value
