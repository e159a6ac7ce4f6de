"""The schema: stable keys, defaults that mean no flaw, and typed sections that agree with it."""

from __future__ import annotations

from eptsim.base.units import base_unit
from eptsim.cards.schema import SCHEMA, Sections, build

STABLE = {
    "cell.g_min_s",
    "cell.g_max_s",
    "cell.levels",
    "cell.programming.sigma",
    "cell.read_noise.law",
    "cell.read_noise.sigma",
    "cell.drift.nu",
    "cell.drift.nu_sigma",
    "cell.stuck.low",
    "cell.stuck.high",
    "array.rows",
    "array.columns",
    "array.mapping",
    "array.wire_word_ohm",
    "array.wire_bit_ohm",
    "node.offset",
    *(
        f"{direction}.{entry}"
        for direction in ("forward", "transpose")
        for entry in (
            "dac_bits",
            "adc_bits",
            "input_range",
            "output_range",
            "offset",
            "gain",
            "offset_drift",
            "line_noise",
        )
    ),
}


def test_stable_keys_are_all_there() -> None:
    assert set(SCHEMA) >= STABLE


def test_default_values_build_the_default_sections() -> None:
    values = {key: entry.default for key, entry in SCHEMA.items()}
    assert build(values) == Sections()


def test_every_entry_says_what_it_does_and_in_which_unit() -> None:
    for entry in SCHEMA.values():
        assert entry.spec.doc.endswith(".")
        assert entry.unit == ("" if entry.choices else base_unit(entry.spec.dimension))
        assert entry.choices or entry.spec.low < entry.spec.high


def test_optional_entries_default_to_none_and_flaws_to_zero() -> None:
    for entry in SCHEMA.values():
        if entry.optional:
            assert entry.default is None
        elif entry.spec.has_ideal:
            assert entry.default in (0.0, "none", "linear")


def test_scale_suffix_names_the_unit() -> None:
    for key, entry in SCHEMA.items():
        if entry.table:
            continue
        assert key.endswith("_v") == (entry.spec.dimension == "voltage")
        assert key.endswith("_ohm") == (entry.spec.dimension == "resistance")
        assert key.endswith("_s") == (entry.spec.dimension in ("conductance", "time"))
