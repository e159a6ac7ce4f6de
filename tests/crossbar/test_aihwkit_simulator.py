import math

import aihwkit.simulator.presets as presets
import pytest
import torch
from aihwkit.simulator.configs import (
    FloatingPointRPUConfig,
    InferenceRPUConfig,
    SingleRPUConfig,
    TorchInferenceRPUConfig,
)
from aihwkit.simulator.parameters import IOParameters, MappingParameter, WeightNoiseType
from aihwkit.simulator.parameters.enums import AnalogMVType

from eptsim.crossbar.aihwkit_config import converters
from eptsim.crossbar.aihwkit_native import ROWS_PER_TABLE
from eptsim.crossbar.aihwkit_simulator import Tile
from eptsim.crossbar.stages import DIRECTIONS, Position

START = Position(0, 0)


def make(config, weight: torch.Tensor, seed: int = 0, address: str = "tile") -> Tile:
    return Tile(weight, config, {name: converters(config, name) for name in DIRECTIONS}, seed,
                address)


def weight(out: int = 6, inner: int = 9) -> torch.Tensor:
    return 0.2 * torch.randn(out, inner, generator=torch.Generator().manual_seed(0))


def test_scales_turn_what_is_stored_into_the_weight():
    mapping = MappingParameter(weight_scaling_omega=0.5, weight_scaling_columnwise=True)
    w = weight()
    tile = make(FloatingPointRPUConfig(mapping=mapping), w)
    torch.testing.assert_close(tile.scales, w.abs().amax(dim=1) / 0.5)
    torch.testing.assert_close(tile.weight(), w)


@pytest.mark.parametrize("config", [SingleRPUConfig(), TorchInferenceRPUConfig()])
def test_a_row_draws_from_its_own_address(config):
    tile, u = make(config, weight()), torch.ones(2 * ROWS_PER_TABLE, 9)
    whole = tile.read("forward", u, START)
    first = ROWS_PER_TABLE - 3
    parts = [tile.read("forward", u[first:], Position(0, first)),
             tile.read("forward", u[:first], START)]
    assert torch.equal(whole, torch.cat(parts[::-1]))
    assert not torch.equal(whole, tile.read("forward", u, Position(1, 0)))
    assert len(set(whole[:, 0].tolist())) > 5


def test_seed_and_address_make_the_tile():
    config, w = SingleRPUConfig(), weight()
    found = [
        make(config, w, seed, address).read("forward", torch.ones(8, 9), START)
        for seed, address in ((0, "a"), (0, "a"), (1, "a"), (0, "b"))
    ]
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2]) and not torch.equal(found[0], found[3])


def test_averages_converge_to_the_mean():
    """One table of 32,768 normals, read for ever, would be off by 0.5 % of sigma."""
    config = SingleRPUConfig(forward=IOParameters(out_noise=1.0, out_res=-1.0, out_bound=-1.0))
    tile, reads, lines = make(config, torch.zeros(500, 1)), 4096, 500
    noise = tile.read("forward", torch.zeros(reads, 1), START)
    count = reads * lines
    assert abs(float(noise.double().mean())) < 4 / math.sqrt(count)
    assert abs(float(noise.double().std()) - 1.0) < 4 / math.sqrt(2 * count)


SPREADS = {
    "out_noise_std": {"out_noise": 0.2, "out_noise_std": 0.5},
    "v_offset_std": {"v_offset_std": 0.1},
    "out_nonlinearity": {"out_nonlinearity": 0.5, "out_nonlinearity_std": 0.5,
                         "slope_calibration": 0.5},
    "w_read_asymmetry_dtod": {"w_read_asymmetry_dtod": 0.3,
                              "mv_type": AnalogMVType.POS_NEG_SEPARATE},
}


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("spread", list(SPREADS))
def test_spreads_of_lines_are_the_chips(direction, spread):
    io = IOParameters(**{"out_noise": 0.0, "out_res": -1.0, **SPREADS[spread]})
    config = SingleRPUConfig(forward=io, backward=io)
    u = torch.randn(40, 9 if direction == "forward" else 6,
                    generator=torch.Generator().manual_seed(1)).clamp(-1, 1)
    found = [make(config, weight(), seed).read(direction, u, START) for seed in (0, 0, 1)]
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])
    clean = u @ weight().T if direction == "forward" else u @ weight()
    ratio = float((found[0] - clean).std() / clean.std())
    assert 0.005 < ratio < 1.5


def test_write_noise_is_the_chips_and_leaves_the_first_update_clean():
    config, w = presets.ReRamESPreset(), torch.zeros(40, 50)
    config.device.dw_min_std = 0.0
    tiles = [make(config, w, seed) for seed in (0, 0, 1)]
    assert torch.equal(tiles[0].weight(), tiles[1].weight())
    assert not torch.equal(tiles[0].weight(), tiles[2].weight())
    sigma = 75.0 * 0.00135
    assert abs(float(tiles[0].weight().std()) / sigma - 1.0) < 4 / math.sqrt(2 * 2000)
    tiles[0].update(torch.ones(1, 50), torch.ones(1, 40), 0.1, 1)
    # where a pulse went, aihwkit has written again, around the clean weight and not the noisy one
    pulsed = tiles[0].weight()[tiles[0].weight() != 0]
    assert pulsed.numel() > 1000
    assert abs(float(pulsed.std()) / sigma - 1.0) < 0.15  # with the noise twice: 1.41


def test_a_torch_tile_reads_transposed_as_its_backward_says():
    config = TorchInferenceRPUConfig()
    u = torch.randn(20, 6, generator=torch.Generator().manual_seed(1))
    assert torch.equal(make(config, weight()).read("transpose", u, START), u @ weight())
    config.backward = IOParameters(out_noise=0.1, out_res=-1.0)
    noisy = make(config, weight()).read("transpose", u.clamp(-1, 1), START)
    assert 0.05 < float((noisy - u.clamp(-1, 1) @ weight()).std()) < 0.15


@pytest.mark.parametrize("config", [InferenceRPUConfig(), TorchInferenceRPUConfig()])
def test_programming_disturbs_drifts_and_compensates(config):
    config.mapping.weight_scaling_omega = 1.0
    w = weight(40, 50)
    tiles = [make(config, w, seed) for seed in (0, 0, 1)]
    for tile in tiles:
        assert torch.equal(tile.weight(), make(config, w).weight())
        tile.program(86400.0)
    assert torch.equal(tiles[0].weight(), tiles[1].weight())
    assert not torch.equal(tiles[0].weight(), tiles[2].weight())
    error = float((tiles[0].weight() - w).norm() / w.norm())
    assert 0.02 < error < 0.3
    assert float(tiles[0].scales[0]) > float(w.abs().max())  # what has drifted is scaled up


def test_an_exact_tile_updates_exactly():
    x, d = torch.randn(5, 9), torch.randn(5, 6)
    for config in (FloatingPointRPUConfig(), InferenceRPUConfig(), TorchInferenceRPUConfig()):
        config.mapping.weight_scaling_omega = 0.7
        tile = make(config, weight())
        tile.update(x, d, 0.01, 1)
        torch.testing.assert_close(tile.weight(), weight() - 0.01 * d.T @ x)


def test_pulses_are_the_chips():
    config, x, d = SingleRPUConfig(), torch.rand(50, 9), torch.rand(50, 6)
    found = []
    for seed, number in ((0, 1), (0, 1), (0, 2), (1, 1)):
        tile = make(config, torch.zeros(6, 9), seed)
        tile.update(x, d, 0.01, number)
        found.append(tile.weight())
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2]) and not torch.equal(found[0], found[3])
    assert float(found[0].mean()) < -0.02  # downhill


def test_noise_of_the_weights_reaches_the_reads():
    io = IOParameters(out_noise=0.0, out_res=-1.0, w_noise=0.1,
                      w_noise_type=WeightNoiseType.PCM_READ)
    tile = make(SingleRPUConfig(forward=io), 0.25 * torch.ones(400, 9))
    u = torch.ones(1, 9)
    noise = tile.read("forward", u, START) - u @ tile.weight().T
    expected = 0.1 * (tile.weight().abs() @ torch.ones(9)).sqrt()
    assert abs(float((noise / expected).std()) - 1.0) < 4 / math.sqrt(800)
