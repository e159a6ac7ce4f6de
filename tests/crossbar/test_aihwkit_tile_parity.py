"""eptsim's crossbar and aihwkit's tiles, given the same converters, ranges and noise."""

from __future__ import annotations

import math

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

from eptsim.cards import Card
from eptsim.crossbar.aihwkit_tile import AihwkitCrossbar
from eptsim.crossbar.crossbar import Crossbar

OUT, IN, ROWS = 24, 40, 300
RANGE = 1.25
WIDE = 8.0  # clips nothing
PERFECT_DEVICE = {"w_max": 1.0, "w_min": -1.0, "w_max_dtod": 0.0, "w_min_dtod": 0.0}


def draw(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.fixture(scope="module")
def weight() -> torch.Tensor:
    return 0.1 * draw(OUT, IN, seed=0)


def io(**changes: object) -> IOParameters:
    """Converters without noise or management, out_bound as the card's output_range."""
    values: dict[str, object] = {
        "inp_res": -1.0, "out_res": -1.0, "out_noise": 0.0, "out_bound": RANGE,
        "bound_management": BoundManagementType.NONE,
        "noise_management": NoiseManagementType.ABS_MAX,
    }
    return IOParameters(**{**values, **changes})


def config(forward: IOParameters, backward: IOParameters) -> SingleRPUConfig:
    return SingleRPUConfig(
        device=ConstantStepDevice(**PERFECT_DEVICE),
        forward=forward,
        backward=backward,
        mapping=MappingParameter(weight_scaling_omega=1.0),
    )


def resolution(bits: int) -> float:
    return 1.0 / (2**bits - 2)


def pair(
    weight: torch.Tensor, ideal: Card, dac: int, adc: int, managed: IOParameters
) -> tuple[Crossbar, AihwkitCrossbar]:
    """The same converters in both directions, once as a card and once as aihwkit's settings."""
    ours = {
        f"{name}.{key}": value
        for name in ("forward", "transpose")
        for key, value in (("dac_bits", dac), ("adc_bits", adc), ("output_range", RANGE))
    }
    return Crossbar(weight, ideal.override(ours)), AihwkitCrossbar(weight, config(managed, managed))


def read(array: Crossbar | AihwkitCrossbar, direction: str, x: torch.Tensor, policy: str):
    method = array.read if direction == "forward" else array.read_transpose
    return method(x, range_policy=policy)


def assert_same_codes(a: torch.Tensor, b: torch.Tensor, step: torch.Tensor) -> None:
    """Equal to float32 rounding, but for the few values that rounding put beside a boundary."""
    apart = (a - b).abs() / step
    other = apart > 1e-4
    assert float(other.float().mean()) < 2e-3
    assert torch.all((apart[other] - 1.0).abs() < 1e-3)


@pytest.mark.parametrize("direction", ["forward", "transpose"])
@pytest.mark.parametrize("bits", [(8, 8), (5, 9), (2, 3), (7, 4)])
@pytest.mark.parametrize("policy", ["per_vector", "held"])
def test_the_same_converters_give_the_same_numbers(weight, ideal, direction, bits, policy):
    dac, adc = bits
    managed = io(inp_res=resolution(dac), out_res=resolution(adc))
    ours, theirs = pair(weight, ideal, dac, adc, managed)
    x = draw(ROWS, IN if direction == "forward" else OUT, seed=1)
    for array in (ours, theirs):
        array.hold_range(direction, 2.5)  # some inputs are beyond it
    a, b = (read(array, direction, x, policy) for array in (ours, theirs))
    top = x.abs().amax(dim=1, keepdim=True) if policy == "per_vector" else torch.tensor(2.5)
    scale = top * weight.abs().max()
    ideal_read = x @ weight.T if direction == "forward" else x @ weight
    assert float((a.abs() >= 0.999 * RANGE * scale).float().mean()) > 0.001  # some clip
    assert float((a - ideal_read).abs().max()) > 0.0
    assert_same_codes(a, b, scale * RANGE / (2 ** (adc - 1) - 1))


@pytest.mark.parametrize("direction", ["forward", "transpose"])
def test_input_converter_alone(weight, ideal, direction):
    ours = Crossbar(weight, ideal.override({f"{direction}.dac_bits": 4}))
    managed = io(inp_res=resolution(4), out_bound=-1.0)
    theirs = AihwkitCrossbar(weight, config(managed, managed))
    x = draw(ROWS, IN if direction == "forward" else OUT, seed=2)
    a, b = (read(array, direction, x, "per_vector") for array in (ours, theirs))
    step = x.abs().amax(dim=1, keepdim=True) / 7 * weight.abs().max()
    assert_same_codes(a, b, step)


def test_a_fixed_range_is_constant_noise_management(weight, ideal):
    ours = Crossbar(weight, ideal.override({"forward.dac_bits": 6, "forward.input_range": 1.5}))
    managed = io(
        inp_res=resolution(6), out_bound=-1.0, nm_thres=1.5,
        noise_management=NoiseManagementType.CONSTANT,
    )
    theirs = AihwkitCrossbar(weight, config(managed, managed))
    x = draw(ROWS, IN, seed=3)
    a = ours.read(x, range_policy="fixed")
    b = theirs.read(x)  # the policy that the configuration asks for
    torch.testing.assert_close(b, theirs.read(x, range_policy="fixed"), rtol=0, atol=0)
    assert_same_codes(a, b, 1.5 / 31 * weight.abs().max())


def test_a_largest_input_is_the_threshold_of_noise_management(weight, ideal):
    ours = Crossbar(weight, ideal.override({"forward.dac_bits": 6, "forward.input_range": 2.0}))
    managed = io(inp_res=resolution(6), out_bound=-1.0, nm_thres=2.0)
    theirs = AihwkitCrossbar(weight, config(managed, managed))
    x = draw(ROWS, IN, seed=4)
    a, b = (read(array, "forward", x, "per_vector") for array in (ours, theirs))
    assert_same_codes(a, b, 2.0 / 31 * weight.abs().max())


@pytest.mark.parametrize("direction", ["forward", "transpose"])
@pytest.mark.parametrize("columnwise", [False, True])
def test_ranges_around_the_tile_are_aihwkits_own(weight, direction, columnwise):
    """The same configuration read by aihwkit, which scales each vector inside the tile."""
    managed = io(inp_res=resolution(6), out_res=resolution(7))
    settings = config(managed, managed)
    settings.mapping.weight_scaling_columnwise = columnwise
    settings.device.construction_seed = 1
    tile = settings.create_tile(OUT, IN)
    tile.set_weights(weight)
    array = AihwkitCrossbar(weight, settings)
    x = draw(ROWS, IN if direction == "forward" else OUT, seed=5)
    own = tile.joint_forward(x, is_test=True) if direction == "forward" else tile.backward(x)
    scales = array.weight().abs().amax(dim=1) if columnwise else weight.abs().max()
    driven = x if direction == "forward" else x * scales
    step = driven.abs().amax(dim=1, keepdim=True) * RANGE / 63
    step = step * scales if direction == "forward" else step
    assert_same_codes(read(array, direction, x, "per_vector"), own.detach(), step)


@pytest.mark.parametrize("direction", ["forward", "transpose"])
def test_floating_point_tiles_read_as_the_ideal_card(weight, ideal, direction):
    ours, theirs = Crossbar(weight, ideal), AihwkitCrossbar(weight, FloatingPointRPUConfig())
    x = draw(ROWS, IN if direction == "forward" else OUT, seed=6)
    a, b = (read(array, direction, x, "per_vector") for array in (ours, theirs))
    torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-6)


NOISY = {
    "line": ({"line_noise": 0.02}, None, {"out_noise": 0.02 * WIDE}),
    "cells": (
        {},
        {"cell.read_noise.law": "constant", "cell.read_noise.sigma": 0.03},
        {"w_noise": 0.03 * math.sqrt(2.0), "w_noise_type": WeightNoiseType.ADDITIVE_CONSTANT},
    ),
}


@pytest.mark.parametrize("direction", ["forward", "transpose"])
@pytest.mark.parametrize("what", list(NOISY))
def test_the_same_noise_has_the_same_statistics(weight, ideal, direction, what):
    """Mean and spread of 4,000 reads of each line: 4 standard errors, over all lines.

    The constant noise of a pair of cells is that of both, hence the square root of 2.
    """
    per_direction, cells, theirs_io = NOISY[what]
    changes: dict[str, object] = {f"{direction}.output_range": WIDE, **(cells or {})}
    changes |= {f"{direction}.{key}": value for key, value in per_direction.items()}
    managed = io(out_bound=WIDE, **theirs_io)
    arrays = [Crossbar(weight, ideal.override(changes), seed=1),
              AihwkitCrossbar(weight, config(managed, managed), seed=1)]
    reads = 4000
    x = 0.3 * draw(1, IN if direction == "forward" else OUT, seed=7)
    clean = x @ weight.T if direction == "forward" else x @ weight
    scale = float(x.abs().max() * weight.abs().max())
    norm = float((x / x.abs().max()).norm())
    sigma = scale * (0.02 * WIDE if what == "line" else 0.03 * math.sqrt(2.0) * norm)
    for array in arrays:
        noise = read(array, direction, x.expand(reads, -1), "per_vector") - clean
        count = noise.numel()
        assert abs(float(noise.mean())) < 4 * sigma / math.sqrt(count)
        assert abs(float(noise.std()) / sigma - 1.0) < 4 / math.sqrt(2 * count)
        by_line = noise.mean(dim=0) / (sigma / math.sqrt(reads))  # unit normals, one per line
        lines = by_line.numel()
        assert abs(float(by_line.square().mean()) - 1.0) < 4 * math.sqrt(2.0 / lines)
        kurtosis = float((noise / sigma).pow(4).mean())
        assert abs(kurtosis - 3.0) < 4 * math.sqrt(96.0 / count)
