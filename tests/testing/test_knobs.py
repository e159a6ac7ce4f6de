"""Every dead knob is found, and every knob that acts where it must not."""

import pytest

from eptsim.cards.schema import SCHEMA
from eptsim.testing.factories import eptsim_crossbar
from eptsim.testing.knobs import ELSEWHERE, PROBES, acts_on


def test_every_entry_of_the_schema_is_probed_or_lives_elsewhere():
    assert set(PROBES) | set(ELSEWHERE) == set(SCHEMA)
    assert set(PROBES).isdisjoint(ELSEWHERE)


@pytest.mark.parametrize("key", sorted(PROBES))
def test_a_dead_knob_is_found(run_one, key):
    _, needs = PROBES[key]
    before = needs.get(key, SCHEMA[key].default)

    def dead(weight, card, seed):
        return eptsim_crossbar(weight, card.override({key: before}), seed)

    row = run_one(f"knobs/{key}", dead)
    assert row.status == "failed"
    assert "changed by only 0" in row.detail


@pytest.mark.parametrize("name", ["dac_bits", "adc_bits", "offset", "gain", "line_noise"])
@pytest.mark.parametrize("direction", ["forward", "transpose"])
def test_a_knob_of_one_direction_that_turns_both_is_found(catches, name, direction):
    other = "transpose" if direction == "forward" else "forward"

    def coupled(weight, card, seed):
        value = card.get(f"{direction}.{name}")
        return eptsim_crossbar(weight, card.override({f"{other}.{name}": value}), seed)

    catches(f"knobs/{direction}.{name}", coupled, eptsim_crossbar)


def test_a_chip_that_differs_every_time_does_not_hide_a_dead_knob(run_one):
    calls = iter(range(10))

    def restless(weight, card, seed):
        return eptsim_crossbar(weight, card.override({"cell.levels": None}), next(calls))

    row = run_one("knobs/cell.levels", restless)
    assert row.status == "failed"

    def restless_noise(weight, card, seed):
        noisy = card.override({"cell.levels": None, "cell.programming.sigma": 0.01})
        return eptsim_crossbar(weight, noisy, next(calls))

    row = run_one("knobs/cell.levels", restless_noise)
    assert row.status == "failed"
    assert "two equal chips differ" in row.detail


def test_what_an_entry_acts_on():
    assert acts_on("forward.gain") == ("forward",)
    assert acts_on("cell.levels") == ("forward", "transpose")
    assert acts_on("array.columns") == ("transpose",)
