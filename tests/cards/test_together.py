"""Entries that contradict each other, and those that would do nothing, are refused."""

from __future__ import annotations

import pytest

from eptsim.base.errors import CardError
from eptsim.base.table import Table
from eptsim.cards import load_card
from eptsim.cards.schema import SCHEMA
from eptsim.cards.together import ACTS_WITH

WIDE = Table((0.0, 1e-5), (1e-7, 2e-7))
NARROW = Table((0.0, 1e-6), (1e-7, 2e-7))
CURVE = {"cell.iv.law": "table", "array.coding": "amplitude"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cell.g_min_s": 2e-5}, r"cell\.g_min_s: found 2e-05 S, allowed: below cell\.g_max_s"),
        ({"cell.g_min_s": 1e-5}, r"allowed: below cell\.g_max_s = 1e-05 S"),
        ({"cell.g_max_s": 1e-9, "cell.g_min_s": 1e-8}, r"cell\.g_min_s: found 1e-08 S"),
        ({"cell.read_noise.sigma": 0.1}, r"while cell\.read_noise\.law is 'none'"),
        ({"cell.read_noise.law": "constant"}, r"'constant' without cell\.read_noise\.sigma"),
        ({"cell.drift.time_s": 60}, r"cell\.drift\.time_s: found 60 s without cell\.drift\.nu"),
        ({"cell.drift.t0_s": 60}, r"cell\.drift\.t0_s: found 60 s without cell\.drift\.nu"),
        ({"cell.drift.nu": 0.1, "cell.drift.time_s": 1}, r"at least cell\.drift\.t0_s = 20 s"),
        ({"cell.stuck.low": 0.6, "cell.stuck.high": 0.5}, r"found 0\.6 \+ 0\.5 \+ 0, allowed"),
        ({"cell.stuck.random": 0.6, "cell.stuck.high": 0.5}, "allowed: a sum of at most 1"),
        ({"cell.programming.verify_rounds": 3}, "without cell.programming.verify_tolerance"),
        ({"cell.programming.verify_tolerance": 0.1}, "without a programming error"),
        ({"cell.programming.table": WIDE, "cell.programming.sigma": 0.1}, "which replaces it"),
        ({"cell.programming.sigma_quadratic": -1.0}, "a standard deviation of -1 of g_max_s"),
        (
            {"cell.programming.sigma": 0.05, "cell.programming.sigma_linear": -1.0,
             "cell.programming.sigma_quadratic": 1.0},
            "a standard deviation of -0.2 of g_max_s",
        ),
        ({"cell.programming.table": NARROW}, r"found 0 S to 1e-06 S, allowed: .* covers"),
        ({"cell.read_noise.law": "table"}, "found no table"),
        ({"cell.read_noise.table": WIDE}, "found a table with cell.read_noise.law 'none'"),
        ({"cell.read_noise.law": "table", "cell.read_noise.table": NARROW}, "covers"),
        ({"cell.flicker.fastest_s": 1.0}, "without cell.flicker.sigma"),
        ({"cell.flicker.sigma": 0.1, "cell.flicker.slowest_s": 1e-9}, "at least cell.flicker.fas"),
        ({"cell.drift.compensation": "reference_read"}, "without cell.drift.nu"),
        ({"cell.retention.level": 0.5}, "without cell.retention.tau_s"),
        ({"array.wire_model": "ladder"}, "without array.wire_word_ohm"),
        ({"array.coding": "amplitude"}, "without cell.iv.law"),
        ({"cell.iv.law": "sinh", "array.coding": "amplitude"}, "v0_v: found nothing"),
        ({"cell.iv.v0_v": 0.1}, "only there"),
        ({"cell.iv.law": "sinh", "cell.iv.v0_v": 0.1}, "without array.coding"),
        ({**CURVE, "cell.iv.table": Table((0.0, 0.1), (0.0, 0.1))}, "up to array.read_voltage_v"),
        ({**CURVE, "cell.iv.table": Table((0.0, 1.0), (0.1, 1.0))}, r"from f\(0\) = 0"),
        ({**CURVE, "cell.iv.table": Table((0.0, 0.1, 1.0), (0.0, 1.0, 0.9))}, "rising"),
        ({"array.slices": 2}, "without cell.levels"),
        ({"array.slices": 4, "cell.levels": 256}, "at most 2\\^24 values"),
        ({"clock.pass_s": 1.0}, "without cell.flicker.sigma or forward.offset_drift"),
        ({"forward.offset_time_s": 1.0}, "without forward.offset_drift"),
    ],
)
def test_values_that_do_not_fit_together(changes: dict[str, object], message: str) -> None:
    with pytest.raises(CardError, match=message):
        load_card("ideal").override(changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"cell.drift.nu": 0.05},
        {"cell.drift.nu_sigma": 0.05},
        {"cell.drift.nu_sigma": 0.05, "cell.drift.time_s": 20},
        {"cell.read_noise.law": "constant", "cell.read_noise.sigma": 0.0},
        {"cell.stuck.low": 1.0},
        {"cell.levels": 2},
        {"cell.programming.sigma": 0.0105, "cell.programming.sigma_linear": 0.0786,
         "cell.programming.sigma_quadratic": -0.0469},  # PCM of Joshi et al. 2020
        {"cell.programming.table": WIDE, "cell.programming.verify_tolerance": 0.1},
        {"cell.iv.law": "cubic", "cell.iv.v0_v": 1.0, "array.coding": "pulse_width"},
        {**CURVE, "cell.iv.table": Table((0.0, 0.2), (0.0, 0.1))},
        {"array.slices": 3, "cell.levels": 256},
        {"array.sense_ohm": 1.0, "array.wire_model": "ladder"},
        {"transpose.offset_drift": 0.0, "clock.phase_interval_s": 1.0},
    ],
)
def test_values_that_do(changes: dict[str, object]) -> None:
    load_card("ideal").override(changes)


def test_a_sweep_may_begin_at_zero() -> None:
    card = load_card("pcm_mushroom")
    for key in ("cell.read_noise.sigma", "cell.drift.nu", "cell.drift.nu_sigma"):
        assert card.override({key: 0}).get(key) == 0.0


def test_partners_are_entries() -> None:
    for key, partners in ACTS_WITH.items():
        assert {key, *partners} <= set(SCHEMA)
