"""The EP controller on a chip whose arrays are aihwkit tiles, end to end."""

from __future__ import annotations

from types import SimpleNamespace

import aihwkit.simulator.presets as presets
import pytest
import torch
from aihwkit.simulator.configs import (
    FloatingPointRPUConfig,
    InferenceRPUConfig,
    SingleRPUConfig,
    TorchInferenceRPUConfig,
)
from aihwkit.simulator.configs.devices import ConstantStepDevice
from aihwkit.simulator.parameters import (
    BoundManagementType,
    IOParameters,
    MappingParameter,
)

import eptsim
from eptsim.base.errors import InputError
from eptsim.ep.gradient import Gradient

PERFECT = IOParameters(is_perfect=True)


@pytest.fixture(scope="module")
def small(make_network) -> SimpleNamespace:
    """Two blocks in float32, the only precision that aihwkit's wheel computes in."""
    return make_network(dtype=torch.float32, blocks=2, positions=8)


def chip(net: SimpleNamespace, config: object, seed: int = 0) -> eptsim.Chip:
    return eptsim.Chip(net.model, None, seed, backend="aihwkit", rpu_config=config)


def measure(on: eptsim.Chip, net: SimpleNamespace, **options: object) -> Gradient:
    return eptsim.EPController(on, **options).gradient(net.tokens, net.targets)


def error(found: Gradient, exact: Gradient) -> float:
    a, b = (torch.cat([g.flatten() for g in x.grads.values()]).double() for x in (found, exact))
    return float((a - b).norm() / b.norm())


def cosine(found: Gradient, exact: Gradient) -> float:
    a, b = (torch.cat([g.flatten() for g in x.grads.values()]).double() for x in (found, exact))
    return float(a @ b / (a.norm() * b.norm()))


@pytest.fixture(scope="module")
def exact(small) -> Gradient:
    return eptsim.backprop_gradient(small.model, small.tokens, small.targets)


@pytest.mark.parametrize(
    "config",
    [
        FloatingPointRPUConfig(),
        FloatingPointRPUConfig(
            mapping=MappingParameter(
                max_input_size=20, max_output_size=30, weight_scaling_omega=1.0,
                weight_scaling_columnwise=True,
            )
        ),
        InferenceRPUConfig(forward=PERFECT),
        TorchInferenceRPUConfig(forward=PERFECT),
        SingleRPUConfig(
            forward=PERFECT, backward=PERFECT,
            device=ConstantStepDevice(w_max=4.0, w_min=-4.0, w_max_dtod=0.0, w_min_dtod=0.0),
        ),
    ],
    ids=["floating point", "tiled", "inference", "torch", "single"],
)
def test_an_ideal_configuration_gives_backprop_within_the_bias_of_the_nudge(small, exact, config):
    on = chip(small, config)
    assert error(measure(on, small, measurement="frozen"), exact) < 3e-4
    centred = measure(on, small, beta=0.1, measurement="centred", tolerance=1e-5)
    ideal = eptsim.Chip(small.model, eptsim.load_card("ideal"))
    expected = measure(ideal, small, beta=0.1, measurement="centred", tolerance=1e-5)
    assert error(centred, exact) < 0.02
    assert error(centred, expected) < 1e-3
    one_sided = [
        error(measure(on, small, beta=beta, measurement="one_sided", tolerance=1e-5), exact)
        for beta in (0.1, 0.2)
    ]
    assert 1.6 < one_sided[1] / one_sided[0] < 2.4  # a bias of first order


def converting(**changes: object) -> SingleRPUConfig:
    """8-bit converters and a little noise in both directions, weights scaled to the devices."""
    io = IOParameters(**{
        "inp_res": 1 / 254, "out_res": 1 / 254, "out_bound": 8.0, "out_noise": 0.002,
        "bound_management": BoundManagementType.NONE, **changes,
    })
    return SingleRPUConfig(
        forward=io, backward=io, mapping=MappingParameter(weight_scaling_omega=0.6),
        device=ConstantStepDevice(w_max_dtod=0.0, w_min_dtod=0.0),
    )


@pytest.mark.parametrize("reference", ["none", "line", "weight", "line+weight"])
def test_converters_and_noise_leave_the_gradient_recognisable(small, exact, reference):
    found = measure(
        chip(small, converting()), small, beta=0.2, measurement="centred", reference=reference,
        range_policy="held", reads=4,
    )
    assert cosine(found, exact) > 0.8
    assert all(phase.settled for phase in found.phases)


def test_the_same_seed_gives_the_same_gradient(small):
    options = {"beta": 0.2, "measurement": "one_sided", "sweeps": 2}
    found = [
        measure(chip(small, converting(), seed), small, **options) for seed in (1, 1, 2)
    ]
    assert error(found[0], found[1]) == 0.0
    assert error(found[0], found[2]) > 0.0


@pytest.mark.parametrize("name", ["EcRamPreset", "ReRamESPreset", "StandardHWATrainingPreset"])
def test_presets_are_driven_end_to_end(small, name):
    on = chip(small, getattr(presets, name)())
    found = measure(on, small, beta=0.5, measurement="frozen", range_policy="per_vector")
    assert all(bool(torch.isfinite(grad).all()) for grad in found.grads.values())
    assert on.noisy
    assert torch.isfinite(on.logits(small.tokens)).all()


def test_a_node_force_comes_from_the_card(small, exact):
    card = eptsim.load_card("ideal").override({"node.offset": 1e-3})
    on = eptsim.Chip(
        small.model, card, backend="aihwkit", rpu_config=FloatingPointRPUConfig()
    )
    options = {"beta": 0.1, "measurement": "one_sided", "range_policy": "per_vector"}
    referenced = measure(on, small, reference="weight", **options)
    plain = measure(on, small, reference="none", **options)
    assert error(referenced, exact) < error(plain, exact)


def test_backend_and_configuration_belong_together(small):
    config = FloatingPointRPUConfig()
    with pytest.raises(InputError, match="backend: found 'ibm', allowed: eptsim, aihwkit"):
        eptsim.Chip(small.model, None, backend="ibm", rpu_config=config)
    with pytest.raises(InputError, match="rpu_config"):
        eptsim.Chip(small.model, None, backend="aihwkit")
    with pytest.raises(InputError, match="rpu_config"):
        eptsim.Chip(small.model, eptsim.load_card("ideal"), rpu_config=config)


def test_a_model_in_double_precision_is_refused(network):
    with pytest.raises(InputError, match=r"float64 on cpu, allowed: torch\.float32"):
        chip(network, FloatingPointRPUConfig())
