"""The suite's own solver against circuits that other programs solved."""

import json
from pathlib import Path

import numpy as np
import pytest

from eptsim.testing.circuits import (
    PUBLISHED_A,
    PUBLISHED_OHM,
    PUBLISHED_TRANSPOSE_A,
    PUBLISHED_V,
    PUBLISHED_WIRES,
)
from eptsim.testing.nodal import Resistances, transfer

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "wires.json").read_text())


@pytest.mark.parametrize("case", GOLDEN["random"], ids=lambda case: case["name"])
def test_golden_circuits(case):
    ohms = Resistances(word=case["r_word_ohm"], bit=case["r_bit_ohm"])
    got = np.array(case["v_v"]) @ transfer(np.array(case["g_s"]), ohms)
    want = np.array(case["i_a"])
    assert np.abs(got - want).max() <= 1e-9 * np.abs(want).max()


def test_the_published_circuit_is_the_golden_one():
    case = GOLDEN["circuit_5x4"]
    np.testing.assert_array_equal(PUBLISHED_OHM, case["r_ohm"])
    np.testing.assert_array_equal(PUBLISHED_V, case["v_v"])
    np.testing.assert_array_equal(PUBLISHED_A, case["wire_1_2"]["i_a"])
    np.testing.assert_array_equal(PUBLISHED_TRANSPOSE_A, case["transpose_unit_drive_1_2"])
    got = transfer(1 / PUBLISHED_OHM, PUBLISHED_WIRES)
    np.testing.assert_allclose(PUBLISHED_V @ got, PUBLISHED_A, atol=1e-10)
    np.testing.assert_allclose(got.sum(axis=1), PUBLISHED_TRANSPOSE_A, atol=6e-9)
    bare = transfer(1 / PUBLISHED_OHM, Resistances())
    np.testing.assert_allclose(PUBLISHED_V @ bare, case["no_wire"], atol=1e-10)


def test_terminals_of_one_cell_are_a_voltage_divider():
    ohms = Resistances(word=1.0, bit=2.0, driver=30.0, sense=40.0)
    got = transfer(np.array([[1e-2]]), ohms)
    assert got[0, 0] == pytest.approx(1 / (100 + 73), rel=1e-12)
    lone = transfer(np.array([[1e-2]]), Resistances(driver=30.0))
    assert lone[0, 0] == pytest.approx(1 / 130, rel=1e-12)
    assert ohms.changes()["array.sense_ohm"] == 40.0
    assert Resistances().changes() == {}


@pytest.mark.parametrize(
    "ohms",
    [Resistances(word=3.0), Resistances(bit=3.0), Resistances(driver=3.0), Resistances(sense=3.0)],
)
def test_no_resistance_is_the_limit_of_a_small_one(ohms):
    g_s = np.random.default_rng(0).uniform(1e-3, 1e-1, (4, 3))
    tiny = Resistances(*(max(one, 1e-6) for one in (ohms.word, ohms.bit, ohms.driver, ohms.sense)))
    np.testing.assert_allclose(transfer(g_s, ohms), transfer(g_s, tiny), rtol=1e-5)
