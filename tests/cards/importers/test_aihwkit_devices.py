import math

import aihwkit.simulator.presets as presets
import numpy as np
import pytest
import torch
from aihwkit.inference.noise.custom import StateIndependentNoiseModel
from aihwkit.inference.noise.hermes import HermesNoiseModel
from aihwkit.inference.noise.pcm import PCMLikeNoiseModel
from aihwkit.inference.noise.reram import ReRamCMONoiseModel, ReRamWan2022NoiseModel
from aihwkit.simulator.configs import InferenceRPUConfig

from eptsim.base.table import Table
from eptsim.cards.importers import import_card

pytestmark = pytest.mark.filterwarnings("ignore:Using a non-tuple sequence")


def imported(model, **settings: object):
    return import_card(InferenceRPUConfig(noise_model=model, **settings))


def names(found) -> set[str]:
    return {item.field for item in found.left_out}


def test_the_programming_error_of_pcm_is_its_polynomial():
    model = PCMLikeNoiseModel(g_max=20.0, prog_noise_scale=2.0)
    programming = imported(model).card.cell.programming
    found = (programming.sigma, programming.sigma_linear, programming.sigma_quadratic)
    assert found == pytest.approx([2 * c / 25.0 for c in (0.26348, 1.9650, -1.1731)])


def test_drift_and_flicker_of_pcm_are_those_at_half_of_g_max():
    found = imported(PCMLikeNoiseModel())
    cell = found.card.cell
    assert (cell.g_min_s, cell.g_max_s) == (0.0, 25e-6)
    assert cell.drift.nu == pytest.approx(0.049, rel=0.01)  # the clamp of the fit
    assert cell.drift.nu_sigma == pytest.approx(0.008, rel=0.01)
    assert (cell.drift.t0_s, cell.drift.compensation) == (20.0, "reference_read")
    assert cell.flicker.sigma == pytest.approx(0.0088 / 0.5**0.65, rel=0.01)
    assert cell.flicker.fastest_s == 5e-7
    assert {"noise_model.drift_scale", "noise_model.read_noise_scale"} <= names(found)


def test_scales_of_zero_switch_off():
    cell = imported(PCMLikeNoiseModel(drift_scale=0.0, read_noise_scale=0.0)).card.cell
    assert (cell.drift.nu, cell.flicker.sigma) == (0.0, 0.0)


def test_a_higher_polynomial_is_a_table():
    table = imported(HermesNoiseModel()).card.cell.programming.table
    assert isinstance(table, Table)
    coefficients = [0.16603222, 4.71806468, -8.48101252, 4.68961419]
    x = np.array(table.x) / 20.7e-6
    expected = np.polynomial.polynomial.polyval(x, coefficients) * 1e-6
    np.testing.assert_allclose(table.y, expected, rtol=5e-3)


@pytest.mark.parametrize("model", [ReRamWan2022NoiseModel(), ReRamCMONoiseModel()])
def test_other_models_are_sampled(model):
    found = imported(model)
    table = found.card.cell.programming.table
    assert isinstance(table, Table)
    g_us = table.x[10] * 1e6
    drawn = model.apply_programming_noise_to_conductance(torch.full((20_000,), g_us))
    assert table.y[10] * 1e6 == pytest.approx(float(drawn.std()), rel=0.04)
    assert "noise_model" in names(found)
    assert found.card.cell.drift.nu == 0.0 and found.card.cell.drift.compensation == "none"
    single = isinstance(model, ReRamCMONoiseModel)
    assert found.card.array.mapping == ("offset" if single else "differential")


def test_the_same_table_each_time_and_torch_as_before():
    before = torch.get_rng_state()
    first, second = (imported(ReRamWan2022NoiseModel()).card for _ in range(2))
    assert first == second
    assert torch.equal(before, torch.get_rng_state())


def test_a_model_without_a_reference_is_in_units_of_its_g_max():
    cell = imported(StateIndependentNoiseModel()).card.cell
    assert cell.programming.sigma == pytest.approx(0.2 / 25.0)
    assert cell.drift.nu == pytest.approx(0.1, rel=0.05)


def test_no_compensation():
    assert imported(PCMLikeNoiseModel(), drift_compensation=None).card.cell.drift.compensation == (
        "none"
    )


def test_a_pulsed_device_is_one_cell_between_its_bounds():
    found = import_card(presets.ReRamSBPreset())
    card = found.card
    assert card.array.mapping == "offset"
    assert card.cell.spread.g_max == pytest.approx(0.3 / 2.0)  # w_max_dtod w_max of the window
    assert card.cell.spread.g_min == pytest.approx(0.3 / 2.0)
    assert card.cell.programming.sigma == pytest.approx(56 * 0.002 / 2.0)
    assert {"device", "device.w_max", "device.dw_min", "device.dw_min_std"} <= names(found)


def test_corrupt_devices_are_stuck():
    device = presets.ReRamArrayOMPresetDevice(corrupt_devices_prob=0.1348)
    found = import_card(presets.ReRamSBPreset(device=device))
    assert found.card.cell.stuck.random == 0.1348
    assert "device.corrupt_devices_range" in names(found)


def test_every_setting_of_a_compound_is_listed():
    found = import_card(presets.PCMPreset())
    listed = {item.field: item.value for item in found.left_out}
    assert listed["device"] == "'PCMPresetUnitCell'"
    assert listed["device.unit_cell_devices[1].gamma_up"] == "2.5"
    assert listed["device.refresh_every"] == "1"
    assert math.isclose(found.card.forward.line_noise, 0.1 / 20.0)
