import torch
from aihwkit.simulator.configs import FloatingPointRPUConfig

from eptsim.cards import load_card
from eptsim.crossbar.aihwkit_tile import AihwkitCrossbar
from eptsim.crossbar.crossbar import Crossbar
from eptsim.crossbar.interface import Converters, CrossbarLike

NAMES = sorted(name for name in vars(CrossbarLike) if not name.startswith("_"))


def both() -> list[CrossbarLike]:
    """Both kinds, as mypy sees them."""
    weight = torch.eye(3)
    return [Crossbar(weight, load_card("ideal")), AihwkitCrossbar(weight, FloatingPointRPUConfig())]


def test_both_kinds_have_every_member():
    for array in both():
        for name in [*NAMES, *CrossbarLike.__annotations__]:
            assert getattr(array, name) is not None
        stage: Converters = array.stage("forward")
        assert (stage.dac_steps, stage.adc_steps, stage.noisy) == (None, None, False)
        assert stage.full_scale == 12.0


def test_both_kinds_read_and_hold_a_range_alike():
    x = torch.tensor([[1.0, -2.0, 0.5]])
    for array in both():
        assert torch.equal(array.read(x), x)
        assert torch.equal(array.read_transpose(x), x)
        assert array.held_range("forward") is None
        array.hold_range("forward", 3.0)
        assert array.held_range("forward") == 3.0
        assert array.zero_reference("transpose", 4).tolist() == [[0.0, 0.0, 0.0]]
        assert array.segments("forward") == 1
