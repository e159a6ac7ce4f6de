import math
import sys

import aihwkit.simulator.presets as presets
import pytest
import torch
from aihwkit.simulator.configs import FloatingPointRPUConfig, SingleRPUConfig
from aihwkit.simulator.configs.devices import ConstantStepDevice
from aihwkit.simulator.parameters import (
    BoundManagementType,
    IOParameters,
    MappingParameter,
    NoiseManagementType,
    WeightNoiseType,
)

from eptsim.base.errors import CardError
from eptsim.cards import load_card
from eptsim.cards.importers import import_card
from eptsim.cards.importers.aihwkit import import_aihwkit
from eptsim.crossbar.aihwkit_tile import AihwkitCrossbar
from eptsim.crossbar.crossbar import Crossbar

PRESETS = sorted(name for name in vars(presets) if name.endswith("Preset"))


def left(found) -> dict[str, str]:
    return {item.field: item.value for item in found.left_out}


def io(**changes: object) -> IOParameters:
    return IOParameters(**{
        "out_noise": 0.0, "bound_management": BoundManagementType.NONE, **changes,
    })


def config(forward: IOParameters, omega: float = 1.0, **mapping: object) -> SingleRPUConfig:
    return SingleRPUConfig(
        forward=forward, backward=forward,
        device=ConstantStepDevice(w_max=omega, w_min=-omega, w_max_dtod=0.0, w_min_dtod=0.0),
        mapping=MappingParameter(weight_scaling_omega=omega, **mapping),
    )


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_makes_a_card_that_loads(name, tmp_path):
    found = import_card(f"aihwkit:{name}")
    path = tmp_path / "card.toml"
    path.write_text(found.text)
    assert load_card(path) == found.card
    assert len({item.field for item in found.left_out}) == len(found.left_out)
    assert all(item.why for item in found.left_out)


@pytest.mark.parametrize("omega", [1.0, 0.6])
@pytest.mark.parametrize("direction", ["forward", "transpose"])
def test_the_card_reads_as_the_configuration(omega, direction):
    given = config(io(inp_res=1 / 126, out_res=1 / 254, out_bound=2.0), omega)
    weight = 0.1 * torch.randn(20, 30, generator=torch.Generator().manual_seed(0))
    x = torch.randn(200, 30 if direction == "forward" else 20,
                    generator=torch.Generator().manual_seed(1))
    ours = Crossbar(weight, import_card(given).card)
    theirs = AihwkitCrossbar(weight, given)
    if direction == "forward":
        a, b = ours.read(x), theirs.read(x)
    else:
        a, b = ours.read_transpose(x), theirs.read_transpose(x)
    step = x.abs().amax(dim=1, keepdim=True) * weight.abs().max() / omega * 2.0 / 127
    apart = (a - b).abs() / step
    assert float((apart > 1e-3).float().mean()) < 2e-3  # beside a boundary of the converter
    assert float(a.abs().max()) > 0


def test_the_noise_is_that_of_the_configuration():
    given = config(
        io(out_noise=0.05, out_res=-1, inp_res=-1, w_noise=0.02,
           w_noise_type=WeightNoiseType.ADDITIVE_CONSTANT),
        0.6,
    )
    weight = 0.1 * torch.randn(20, 30, generator=torch.Generator().manual_seed(0))
    x = torch.ones(4000, 30)
    spreads = [
        (array.read(x) - x @ weight.T).std()
        for array in (Crossbar(weight, import_card(given).card), AihwkitCrossbar(weight, given))
    ]
    assert abs(float(spreads[0] / spreads[1]) - 1.0) < 8 / math.sqrt(2 * 80_000)


def test_what_is_carried_of_converters_and_tiles():
    given = config(
        io(inp_res=1 / 126, out_res=254.0, out_bound=12.0, out_noise=0.06, nm_thres=2.0), 0.5,
        max_input_size=256, max_output_size=0, weight_scaling_columnwise=True,
    )
    card = import_card(given).card
    for direction in (card.forward, card.transpose):
        assert (direction.dac_bits, direction.adc_bits) == (7, 8)
        assert (direction.input_range, direction.output_range) == (2.0, 24.0)
        assert direction.line_noise == pytest.approx(0.005)
    assert (card.array.rows, card.array.columns) == (256, None)
    assert (card.array.scaling, card.array.mapping) == ("column", "offset")


@pytest.mark.parametrize(
    ("managed", "threshold", "expected"),
    [("NONE", 0.0, 1.0), ("CONSTANT", 0.0, 1.0), ("CONSTANT", 3.0, 3.0), ("ABS_MAX", 0.0, None)],
)
def test_ranges(managed, threshold, expected):
    given = config(io(noise_management=NoiseManagementType[managed], nm_thres=threshold))
    assert import_card(given).card.forward.input_range == expected


def test_a_perfect_configuration_is_an_ideal_card():
    found = import_card(FloatingPointRPUConfig(mapping=MappingParameter(
        weight_scaling_omega=1.0, max_input_size=0, max_output_size=0
    )))
    assert found.card.override({"array.scaling": "array"}) == load_card("ideal")
    assert found.left_out == ()


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({}, set()),
        ({"out_noise_std": 0.3}, set()),  # of an out_noise of 0
        ({"out_noise": 0.1, "out_noise_std": 0.3}, {"out_noise_std"}),
        ({"inp_noise": 0.1}, {"inp_noise"}),
        ({"out_sto_round": True}, {"out_sto_round"}),
        ({"ir_drop": 1.0}, {"ir_drop", "ir_drop_g_ratio"}),
        ({"v_offset_std": 0.1}, {"v_offset_std", "v_offset_w_min"}),
        ({"inp_bound": 0.5}, {"inp_bound", "noise_management"}),
        ({"out_scale": 2.0}, {"out_scale"}),
        ({"inp_res": 1 / 100}, {"inp_res"}),
        ({"noise_management": NoiseManagementType.MAX}, {"noise_management", "inp_bound"}),
        ({"w_noise": 0.1, "w_noise_type": WeightNoiseType.PCM_READ}, {"w_noise", "w_noise_type"}),
    ],
)
def test_what_has_an_effect_and_no_entry_is_listed(changes, names):
    found = left(import_card(config(io(**changes))))
    listed = {name.partition(".")[2] for name in found if name.startswith("forward.")}
    assert listed == names
    assert {name for name in found if not name.startswith(("forward.", "backward."))} <= {
        name for name in found if name.startswith(("device", "update."))
    }


def test_bound_management_is_listed():
    found = left(import_aihwkit("EcRamPreset"))
    assert found["forward.bound_management"] == "'ITERATIVE'"
    assert "backward.bound_management" not in found  # aihwkit has none there


def test_noise_of_the_weights_in_one_direction_is_said_to_be_in_both():
    found = import_aihwkit("StandardHWATrainingPreset", "hwa")
    assert found.card.name == "hwa"
    noise = found.card.cell.read_noise
    assert (noise.law, noise.sigma) == ("sqrt", 0.0175)
    assert "backward.w_noise" in left(found)
    assert {"forward.ir_drop", "remap.type", "pre_post.input_range.enable"} <= set(left(found))


def test_names_and_dotted_names():
    assert import_aihwkit("aihwkit.simulator.presets.configs.PCMPreset").card == import_aihwkit(
        presets.PCMPreset()
    ).card
    with pytest.raises(CardError, match=r"IdealisedPreset.*Did you mean 'IdealizedPreset'"):
        import_aihwkit("IdealisedPreset")
    with pytest.raises(CardError, match=r"cannot import nowhere"):
        import_aihwkit("nowhere.Config")
    with pytest.raises(CardError, match="cannot be made without arguments"):
        import_aihwkit("aihwkit.simulator.tiles.AnalogTile")
    for wrong in (7, SingleRPUConfig, {"a": 1}):
        with pytest.raises(CardError, match="allowed: a configuration or preset"):
            import_aihwkit(wrong)


def test_a_missing_aihwkit_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "aihwkit.simulator.presets", None)
    with pytest.raises(CardError, match=r"aihwkit 1\.1\.0 \(which needs torch 2\.10\)"):
        import_aihwkit("PCMPreset")
