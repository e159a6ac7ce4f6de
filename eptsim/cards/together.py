"""Entries that only make sense together: contradictions, and entries that would do nothing."""

from __future__ import annotations

from collections.abc import Mapping, Set

from eptsim.base.errors import CardError
from eptsim.base.table import Table
from eptsim.cards.schema import SCHEMA
from eptsim.cards.spec import Value

_MOVES = ("cell.flicker.sigma", "forward.offset_drift", "transpose.offset_drift")
_WIRES = ("array.wire_word_ohm", "array.wire_bit_ohm", "array.driver_ohm", "array.sense_ohm")

ACTS_WITH: dict[str, tuple[str, ...]] = {
    "cell.programming.verify_rounds": ("cell.programming.verify_tolerance",),
    "cell.flicker.fastest_s": ("cell.flicker.sigma",),
    "cell.flicker.slowest_s": ("cell.flicker.sigma",),
    "cell.drift.time_s": ("cell.drift.nu", "cell.drift.nu_sigma", "cell.retention.tau_s"),
    "cell.drift.t0_s": ("cell.drift.nu", "cell.drift.nu_sigma"),
    "cell.drift.compensation": ("cell.drift.nu", "cell.drift.nu_sigma", "cell.retention.tau_s"),
    "cell.retention.stretch": ("cell.retention.tau_s",),
    "cell.retention.level": ("cell.retention.tau_s",),
    "array.wire_model": _WIRES,
    "array.read_voltage_v": ("cell.iv.law",),
    "array.coding": ("cell.iv.law",),
    "clock.pass_s": _MOVES,
    "clock.phase_interval_s": _MOVES,
    "forward.offset_time_s": ("forward.offset_drift",),
    "transpose.offset_time_s": ("transpose.offset_drift",),
}
"""Entry -> those of which at least one has to be set for it to do anything."""


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
    for key, partners in ACTS_WITH.items():
        if key in given and given.isdisjoint(partners):
            raise CardError(
                f"{origin}: {key}: found {_shown(key, values[key])} without "
                f"{' or '.join(partners)}, so it would do nothing; allowed: set one of them too."
            )
    _check_programming(values, given, origin)
    _check_read_noise(values, given, origin)
    _check_times(values, origin)
    _check_current_voltage(values, given, origin)
    _check_slices(values, origin)
    parts = [_number(values, f"cell.stuck.{name}") for name in ("low", "high", "random")]
    if sum(parts) > 1.0 + 1e-12:
        raise CardError(
            f"{origin}: cell.stuck.low, cell.stuck.high, cell.stuck.random: found "
            f"{' + '.join(f'{part:g}' for part in parts)}, allowed: a sum of at most 1."
        )


def _check_programming(values: Mapping[str, Value], given: Set[str], origin: str) -> None:
    table = values["cell.programming.table"]
    keys = [f"cell.programming.{name}" for name in ("sigma", "sigma_linear", "sigma_quadratic")]
    if table is not None:
        _check_cover(table, "cell.programming.table", values, origin)
        for key in keys:
            if _number(values, key) != 0.0:
                raise CardError(
                    f"{origin}: {key}: found {_number(values, key):g} beside "
                    "cell.programming.table, which replaces it; allowed: one of the two."
                )
    constant, linear, quadratic = (_number(values, key) for key in keys)
    low, high = _number(values, "cell.g_min_s"), _number(values, "cell.g_max_s")
    places = [low / high, 1.0]
    if quadratic != 0 and low / high < -linear / (2 * quadratic) < 1:
        places.append(-linear / (2 * quadratic))
    least = min(constant + x * (linear + x * quadratic) for x in places)
    if least < -1e-12:
        raise CardError(
            f"{origin}: {', '.join(keys)}: found a standard deviation of {least:g} of g_max_s "
            "between g_min_s and g_max_s, allowed: 0 or more there."
        )
    if values["cell.programming.verify_tolerance"] is not None and given.isdisjoint(
        {*keys, "cell.programming.table"}
    ):
        raise CardError(
            f"{origin}: cell.programming.verify_tolerance: found without a programming error, so "
            "it would do nothing; allowed: set cell.programming.sigma or its table too."
        )


def _check_read_noise(values: Mapping[str, Value], given: Set[str], origin: str) -> None:
    law, sigma = values["cell.read_noise.law"], _number(values, "cell.read_noise.sigma")
    table = values["cell.read_noise.table"]
    if law in ("none", "table") and sigma != 0.0:
        raise CardError(
            f"{origin}: cell.read_noise.sigma: found {sigma:g} while cell.read_noise.law is "
            f"{law!r}, so it would do nothing; allowed: 0, or set the law to 'constant', "
            "'proportional' or 'sqrt' too."
        )
    if law not in ("none", "table") and "cell.read_noise.sigma" not in given:
        raise CardError(
            f"{origin}: cell.read_noise.law: found {law!r} without cell.read_noise.sigma, so it "
            "would do nothing; allowed: 'none', or set the sigma too."
        )
    if (law == "table") != (table is not None):
        raise CardError(
            f"{origin}: cell.read_noise.table: found {'no table' if table is None else 'a table'} "
            f"with cell.read_noise.law {law!r}, allowed: a table with law 'table'."
        )
    if table is not None:
        _check_cover(table, "cell.read_noise.table", values, origin)


def _check_times(values: Mapping[str, Value], origin: str) -> None:
    for low, high in (
        ("cell.drift.t0_s", "cell.drift.time_s"),
        ("cell.flicker.fastest_s", "cell.flicker.slowest_s"),
    ):
        first, last = _number(values, low), _number(values, high)
        if last < first:
            raise CardError(
                f"{origin}: {high}: found {last:g} s, allowed: at least {low} = {first:g} s."
            )


def _check_current_voltage(values: Mapping[str, Value], given: Set[str], origin: str) -> None:
    law, v0, table = (values[f"cell.iv.{name}"] for name in ("law", "v0_v", "table"))
    if (law in ("sinh", "cubic")) != (v0 is not None):
        raise CardError(
            f"{origin}: cell.iv.v0_v: found {'nothing' if v0 is None else f'{v0} V'} with "
            f"cell.iv.law {law!r}, allowed: a voltage with law 'sinh' or 'cubic', and only there."
        )
    if (law == "table") != (table is not None):
        raise CardError(
            f"{origin}: cell.iv.table: found {'no table' if table is None else 'a table'} with "
            f"cell.iv.law {law!r}, allowed: a table with law 'table'."
        )
    if law != "linear" and "array.coding" not in given:
        raise CardError(
            f"{origin}: cell.iv.law: found {law!r} without array.coding; it acts with 'amplitude' "
            "and does nothing with 'pulse_width'; allowed: set array.coding too."
        )
    if isinstance(table, Table):
        top = _number(values, "array.read_voltage_v")
        rising = all(a < b for a, b in zip(table.y, table.y[1:], strict=False))
        if (table.x[0], table.y[0]) != (0.0, 0.0) or table.x[-1] < top or not rising:
            raise CardError(
                f"{origin}: cell.iv.table: found {table.x[0]:g} V to {table.x[-1]:g} V, allowed: "
                f"from f(0) = 0, rising, up to array.read_voltage_v = {top:g} V at least."
            )


def _check_slices(values: Mapping[str, Value], origin: str) -> None:
    slices, levels = values["array.slices"], values["cell.levels"]
    assert isinstance(slices, int)
    if slices == 1:
        return
    if not isinstance(levels, int):
        raise CardError(
            f"{origin}: array.slices: found {slices} without cell.levels, the base of the digits; "
            "allowed: set cell.levels too."
        )
    if levels**slices > 2**24:
        raise CardError(
            f"{origin}: array.slices: found {slices} digits of base {levels}, allowed: at most "
            "2^24 values in all."
        )


def _check_cover(table: Value, key: str, values: Mapping[str, Value], origin: str) -> None:
    assert isinstance(table, Table)
    low, high = _number(values, "cell.g_min_s"), _number(values, "cell.g_max_s")
    # the ends may come from decimal fractions of another unit
    if table.x[0] > low * (1 + 1e-9) or table.x[-1] < high * (1 - 1e-9):
        raise CardError(
            f"{origin}: {key}: found {table.x[0]:g} S to {table.x[-1]:g} S, allowed: a table that "
            f"covers cell.g_min_s = {low:g} S to cell.g_max_s = {high:g} S."
        )


def _shown(key: str, value: Value) -> str:
    unit = SCHEMA[key].unit
    number = f"{value:g}" if isinstance(value, float) else repr(value)
    return number if unit in ("", "1") else f"{number} {unit}"


def _number(values: Mapping[str, Value], key: str) -> float:
    value = values[key]
    assert isinstance(value, float)
    return value
