import aihwkit.simulator.presets as presets
import pytest
from aihwkit.simulator.configs import (
    FloatingPointRPUConfig,
    InferenceRPUConfig,
    QuantizedTorchInferenceRPUConfig,
    SingleRPUConfig,
    UnitCellRPUConfig,
)
from aihwkit.simulator.parameters import (
    BoundManagementType,
    IOParameters,
    NoiseManagementType,
    WeightModifierType,
)
from aihwkit.simulator.parameters.base import RPUConfigBase
from aihwkit.simulator.parameters.enums import RPUDataType

from eptsim.base.errors import InputError
from eptsim.cards import load_card
from eptsim.crossbar.aihwkit_config import (
    check_rpu_config,
    converters,
    node_card,
    private_copy,
    quiet_writing,
)

PRESETS = sorted(
    name
    for name in dir(presets)
    if isinstance(value := getattr(presets, name), type) and issubclass(value, RPUConfigBase)
)


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_allowed(name):
    check_rpu_config(getattr(presets, name)())


def managed(**changes: object) -> SingleRPUConfig:
    return SingleRPUConfig(forward=IOParameters(**changes))


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (SingleRPUConfig, "found the class SingleRPUConfig, allowed: an instance"),
        ({"forward": 1}, "found dict, allowed: an aihwkit configuration"),
        (
            managed(noise_management=NoiseManagementType.AVERAGE_ABS_MAX),
            "forward.noise_management: found AVERAGE_ABS_MAX.*earlier reads",
        ),
        (managed(noise_management=NoiseManagementType.MAX), "found MAX"),
        (
            managed(bound_management=BoundManagementType.ITERATIVE_WORST_CASE),
            "forward.bound_management: found ITERATIVE_WORST_CASE, allowed: NONE, ITERATIVE",
        ),
        (UnitCellRPUConfig(), "device.unit_cell_devices: found none"),
    ],
)
def test_what_cannot_be_honoured_is_refused(config, message):
    with pytest.raises(InputError, match=message):
        check_rpu_config(config)


def test_an_aid_of_software_training_is_refused():
    config = InferenceRPUConfig()
    config.modifier.type = WeightModifierType.ADD_NORMAL
    with pytest.raises(InputError, match=r"modifier: found ADD_NORMAL"):
        check_rpu_config(config)


def test_a_quantised_periphery_is_refused():
    config = QuantizedTorchInferenceRPUConfig()
    check_rpu_config(config)
    config.pre_post.periph_quant.n_bits = 8
    with pytest.raises(InputError, match=r"periph_quant.*8 bits.*periphery"):
        check_rpu_config(config)


def test_another_data_type_is_refused():
    config = SingleRPUConfig()
    config.runtime.data_type = RPUDataType.HALF
    with pytest.raises(InputError, match=r"runtime.data_type: found HALF"):
        check_rpu_config(config)


def test_perfect_directions_are_exact():
    assert converters(FloatingPointRPUConfig(), "forward").exact
    stage = converters(InferenceRPUConfig(), "transpose")
    assert stage.exact and not stage.noisy
    assert stage.dac_steps is None and stage.adc_steps is None


@pytest.mark.parametrize("resolution", [1 / 254, 254.0])
def test_steps_of_a_resolution_and_of_a_number(resolution):
    config = managed(inp_res=resolution, out_res=-1.0, out_bound=7.0)
    stage = converters(config, "forward")
    assert (stage.dac_steps, stage.adc_steps, stage.full_scale) == (127, None, 7.0)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ("per_vector", None, 1.0)),
        ({"nm_thres": 2.5}, ("per_vector", 2.5, 2.5)),
        ({"noise_management": NoiseManagementType.NONE}, ("fixed", None, 1.0)),
        ({"noise_management": NoiseManagementType.CONSTANT}, ("fixed", None, 1.0)),
        (
            {"noise_management": NoiseManagementType.CONSTANT, "nm_thres": 2.5},
            ("fixed", None, 2.5),
        ),
    ],
)
def test_ranges_of_noise_management(changes, expected):
    stage = converters(managed(**changes), "forward")
    assert (stage.policy, stage.limit, stage.fixed) == expected


def test_an_input_range_is_a_fixed_range():
    stage = converters(presets.StandardHWATrainingPreset(), "forward")
    assert (stage.policy, stage.limit, stage.fixed) == ("fixed", None, 3.0)


@pytest.mark.parametrize(
    "changes",
    [{"out_noise": 0.1}, {"inp_noise": 0.1}, {"out_noise": 0.0, "inp_sto_round": True}],
)
def test_noise_makes_a_direction_noisy(changes):
    assert converters(managed(**changes), "forward").noisy
    assert not converters(managed(out_noise=0.0), "forward").noisy


def test_the_copy_has_no_ranges_and_seeded_devices():
    given = presets.StandardHWATrainingPreset()
    copied = private_copy(given, 77)
    assert copied.forward.noise_management == NoiseManagementType.NONE
    assert not copied.pre_post.input_range.enable
    assert copied.device.construction_seed == 77
    assert given.forward.noise_management == NoiseManagementType.CONSTANT
    assert given.pre_post.input_range.enable and given.device.construction_seed == 0


def test_a_construction_seed_of_ones_own_is_kept():
    config = SingleRPUConfig()
    config.device.construction_seed = 5
    assert private_copy(config, 77).device.construction_seed == 5


def test_write_noise_of_the_first_programming_is_taken_over():
    config = private_copy(presets.ReRamESPreset(), 1)
    sigma, left_out = quiet_writing(config)
    assert sigma == pytest.approx(75.0 * 0.00135)
    assert left_out == ()
    assert not config.device.apply_write_noise_on_set


def test_write_noise_inside_a_compound_is_left_out_and_named():
    sigma, left_out = quiet_writing(private_copy(presets.ReRamES2Preset(), 1))
    assert sigma == 0.0
    assert left_out == tuple(
        f"device.unit_cell_devices[{index}].apply_write_noise_on_set" for index in range(2)
    )


def test_devices_without_write_noise_need_nothing():
    assert quiet_writing(private_copy(presets.CapacitorPreset(), 1)) == (0.0, ())


def test_a_card_beside_a_configuration_speaks_of_nodes_only():
    assert node_card(None) == load_card("ideal")
    card = load_card("ideal").override({"node.offset": 0.1})
    assert node_card(card) is card
    message = r"card 'ideal' with backend 'aihwkit': forward.offset: found other than default"
    with pytest.raises(InputError, match=message):
        node_card(card.override({"forward.offset": 0.1}))
    with pytest.raises(InputError, match="card: found str, allowed: a Card"):
        node_card("ideal")
