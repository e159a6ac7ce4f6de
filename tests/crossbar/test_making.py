"""Which implementation a Crossbar is, and what each refuses."""

import pytest
import torch
from aihwkit.simulator.configs import FloatingPointRPUConfig

from eptsim.base.errors import InputError
from eptsim.crossbar.aihwkit_tile import AihwkitCrossbar
from eptsim.crossbar.crossbar import Crossbar
from eptsim.crossbar.making import programmed_state

W = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
X = torch.randn(2, 3, generator=torch.Generator().manual_seed(1))


def test_backends_share_one_interface(ideal):
    own = Crossbar(W, ideal, path="a")
    other = Crossbar(W, backend="aihwkit", rpu_config=FloatingPointRPUConfig(), path="a")
    assert isinstance(other, AihwkitCrossbar)
    assert other.path == own.path == "a"
    torch.testing.assert_close(other.read(X), own.read(X))
    torch.testing.assert_close(other.weight(), own.weight())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"backend": "crosssim"}, "Crossbar: backend: found 'crosssim', allowed"),
        ({"backend": "aihwkit"}, "rpu_config: found NoneType with backend 'aihwkit'"),
        ({"rpu_config": FloatingPointRPUConfig()}, "found FloatingPointRPUConfig with backend 'ep"),
        ({"backend": "aihwkit", "rpu_config": 3}, "rpu_config"),
        (
            {"backend": "aihwkit", "rpu_config": FloatingPointRPUConfig(), "fused": True},
            "fused: found bool with backend 'aihwkit', allowed: None",
        ),
    ],
)
def test_what_does_not_fit_is_refused(arguments, message):
    with pytest.raises(InputError, match=message):
        Crossbar(W, **arguments)


def test_a_card_beside_a_configuration_is_refused(ideal):
    with pytest.raises(InputError, match="card: found Card with backend 'aihwkit'"):
        Crossbar(W, ideal, backend="aihwkit", rpu_config=FloatingPointRPUConfig())
    with pytest.raises(InputError, match="card: found NoneType, allowed: a Card"):
        Crossbar(W)


@pytest.mark.parametrize("path", [None, 3, b"a", "\ud800"])
def test_a_path_is_a_text(ideal, path):
    with pytest.raises(InputError, match="path: found"):
        Crossbar(W, ideal, path=path)


def test_a_new_array_starts_at_the_beginning(ideal):
    state = programmed_state(W, ideal, 3, "a", None, None)
    assert (state.seed, state.path, state.range_policy, state.time_s) == (3, "a", "per_vector", 0)
    assert state.held == {"forward": None, "transpose": None}
    assert state.next_row == {"forward": 0, "transpose": 0}
