import aihwkit.simulator.presets as presets
import pytest
import torch
from aihwkit.simulator.configs import (
    FloatingPointRPUConfig,
    InferenceRPUConfig,
    SingleRPUConfig,
    TorchInferenceRPUConfig,
)
from aihwkit.simulator.parameters import IOParameters, MappingParameter
from aihwkit.simulator.tiles.array import TileModuleArray

from eptsim.base.errors import InputError, ReadError
from eptsim.crossbar.aihwkit_tile import AihwkitCrossbar
from eptsim.crossbar.stages import Position

OUT, IN, ROWS = 30, 50, 45


def draw(*shape: int, seed: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.fixture(scope="module")
def weight() -> torch.Tensor:
    return 0.1 * draw(OUT, IN, seed=0)


def tiled(**mapping: object) -> MappingParameter:
    return MappingParameter(max_input_size=20, max_output_size=13, **mapping)


PERFECT = [
    FloatingPointRPUConfig(),
    FloatingPointRPUConfig(
        mapping=tiled(weight_scaling_omega=1.0, weight_scaling_columnwise=True)
    ),
    presets.FloatingPointPreset(),
    InferenceRPUConfig(forward=IOParameters(is_perfect=True), mapping=tiled()),
    TorchInferenceRPUConfig(forward=IOParameters(is_perfect=True), mapping=tiled()),
]


@pytest.mark.parametrize("config", PERFECT)
def test_perfect_configurations_read_the_weight_and_its_transpose(weight, config):
    array = AihwkitCrossbar(weight, config)
    x, d = draw(3, ROWS, IN, seed=1), draw(ROWS, OUT, seed=2)
    torch.testing.assert_close(array.read(x), x @ weight.T, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(array.read_transpose(d), d @ weight, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(array.weight(), weight)
    assert array.shape == (OUT, IN)


def test_tiles_are_cut_as_aihwkit_cuts_them(weight):
    config = FloatingPointRPUConfig(mapping=tiled())
    array = AihwkitCrossbar(weight, config)
    theirs = TileModuleArray(OUT, IN, config)
    assert array.segments("forward") == len(theirs.in_sizes) == 3
    assert array.segments("transpose") == len(theirs.out_sizes) == 3
    assert [tile[0].weight().shape[1] for tile in array._tiles] == theirs.in_sizes
    assert [tile.weight().shape[0] for tile in array._tiles[0]] == theirs.out_sizes


def test_several_tiles_read_as_aihwkits_array_of_tiles(weight):
    io = IOParameters(out_noise=0.0, out_bound=2.0, inp_res=1 / 62, out_res=1 / 126)
    config = TorchInferenceRPUConfig(forward=io, mapping=tiled(weight_scaling_omega=1.0))
    theirs = TileModuleArray(OUT, IN, config).eval()
    theirs.set_weights(weight)
    x = draw(ROWS, IN, seed=3)
    found, expected = AihwkitCrossbar(weight, config).read(x), theirs(x).detach()
    assert float(((found - expected).abs() > 1e-5).float().mean()) < 5e-3  # beside a boundary


@pytest.mark.parametrize("preset", ["EcRamPreset", "PCMPreset", "StandardHWATrainingPreset"])
@pytest.mark.parametrize("policy", ["per_vector", "fixed", "held"])
def test_splitting_a_batch_changes_no_bit(weight, preset, policy):
    config = getattr(presets, preset)()
    whole, split = (AihwkitCrossbar(weight, config, seed=1) for _ in range(2))
    for array in (whole, split):
        array.hold_range("forward", 2.0)
        array.hold_range("transpose", 2.0)
    x, d = draw(ROWS, IN, seed=4), draw(ROWS, OUT, seed=5)
    a = whole.read(x, range_policy=policy)
    b = torch.cat([split.read(part, range_policy=policy) for part in (x[:1], x[1:20], x[20:])])
    assert torch.equal(a, b)
    a = whole.read_transpose(d, range_policy=policy)
    b = torch.cat([split.read_transpose(p, range_policy=policy) for p in (d[:7], d[7:])])
    assert torch.equal(a, b)


def test_the_same_seed_gives_the_same_chip_and_another_path_does_not(weight):
    config, x = presets.ReRamESPreset(), draw(4, IN, seed=6)
    made = [
        AihwkitCrossbar(weight, config, seed, path=path)
        for seed, path in ((1, "a"), (1, "a"), (2, "a"), (1, "b"))
    ]
    reads = [array.read(x) for array in made]
    assert torch.equal(made[0].weight(), made[1].weight()) and torch.equal(reads[0], reads[1])
    for other in (2, 3):
        assert not torch.equal(made[0].weight(), made[other].weight())
        assert not torch.equal(reads[0], reads[other])


def test_a_position_addresses_the_noise(weight):
    array, x = AihwkitCrossbar(weight, SingleRPUConfig()), draw(4, IN, seed=7)
    first = array.read(x, position=Position(3, 0))
    array.read(x)
    assert torch.equal(first, array.read(x, position=Position(3, 0)))
    assert not torch.equal(first, array.read(x, position=Position(4, 0)))


def test_torchs_global_generator_is_not_touched(weight):
    before = torch.get_rng_state()
    for config in (SingleRPUConfig(), presets.ReRamESPreset(), TorchInferenceRPUConfig()):
        array = AihwkitCrossbar(weight, config)
        array.read(draw(2, IN, seed=8))
        array.read_transpose(draw(2, OUT, seed=8))
        array.update(draw(2, IN, seed=8), draw(2, OUT, seed=9), 0.01)
    AihwkitCrossbar(weight, InferenceRPUConfig(), inference_time_s=100.0)
    assert torch.equal(before, torch.get_rng_state())


def test_the_configuration_is_not_changed_and_a_later_change_has_no_effect(weight):
    config = SingleRPUConfig()
    shown = str(config)
    array, x = AihwkitCrossbar(weight, config), draw(2, IN, seed=8)
    assert str(config) == shown
    first = array.read(x, position=Position(0, 0))
    config.forward.out_noise = 5.0
    assert torch.equal(first, array.read(x, position=Position(0, 0)))


def test_a_zero_vector_is_driven_at_range_one(weight):
    config = SingleRPUConfig(forward=IOParameters(out_noise=0.0))
    array = AihwkitCrossbar(weight, config)
    assert torch.equal(array.read(torch.zeros(2, IN)), torch.zeros(2, OUT))
    noisy = AihwkitCrossbar(weight, SingleRPUConfig())
    assert float(noisy.read(torch.zeros(2, IN)).abs().max()) > 0


def test_a_held_range_has_to_be_set(weight):
    array, x = AihwkitCrossbar(weight, SingleRPUConfig()), draw(2, IN, seed=8)
    with pytest.raises(InputError, match=r"'held': array 'crossbar' has no forward range yet"):
        array.read(x, range_policy="held")
    with pytest.raises(InputError, match="range_policy: found 'best'"):
        array.read(x, range_policy="best")


@pytest.mark.parametrize("direction", ["forward", "transpose"])
def test_a_line_reference_is_subtracted_after_the_converter(weight, direction):
    config = SingleRPUConfig(mapping=tiled(weight_scaling_omega=1.0))
    array = AihwkitCrossbar(weight, config, seed=2)
    method = array.read if direction == "forward" else array.read_transpose
    lines, drives = (OUT, IN) if direction == "forward" else (IN, OUT)
    reference = array.zero_reference(direction, 400, Position(9, 0))
    assert reference.shape == (array.segments(direction), lines)
    assert 0 < float(reference.abs().max()) < 0.06 * 5 / 20  # noise of 0.06 over 400 reads
    x, where = draw(4, drives, seed=10), Position(1, 0)
    plain = method(x, range_policy="fixed", position=where)
    other = method(x, range_policy="fixed", position=where, reference=torch.ones_like(reference))
    tops = torch.stack([
        torch.cat([tile.scales.expand(tile.weight().shape[0]) for tile in tiles])
        for tiles in array._tiles
    ])  # (segments of the input, out)
    expected = tops.sum(dim=0).expand(4, -1) if direction == "forward" else torch.full((4, IN), 3.0)
    torch.testing.assert_close(plain - other, expected, rtol=1e-4, atol=1e-5)


def test_a_reference_of_another_shape_is_refused(weight):
    array = AihwkitCrossbar(weight, SingleRPUConfig())
    with pytest.raises(InputError, match="reference: found"):
        array.read(draw(2, IN, seed=1), reference=torch.zeros(2, OUT))


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_numbers_that_are_not_finite_are_refused(weight, bad):
    array, x = AihwkitCrossbar(weight, FloatingPointRPUConfig()), torch.zeros(2, IN)
    x[1, 3] = bad
    with pytest.raises(ReadError, match="read of array 'crossbar': found NaN or infinity"):
        array.read(x)
    with pytest.raises(ReadError, match=r"beyond torch\.float32"):
        array.read(torch.full((1, IN), 3e38) * weight[0].sign())


def test_other_dtypes_and_shapes_are_refused(weight):
    with pytest.raises(InputError, match=r"found torch.float64 on cpu, allowed: torch.float32"):
        AihwkitCrossbar(weight.double(), SingleRPUConfig())
    array = AihwkitCrossbar(weight, SingleRPUConfig())
    with pytest.raises(InputError, match=r"read: x: found shape \(2, 3\)"):
        array.read(torch.zeros(2, 3))
    assert array.read(torch.zeros(0, IN)).shape == (0, OUT)


def test_an_update_moves_the_weight_downhill(weight):
    config = SingleRPUConfig(mapping=tiled(weight_scaling_omega=0.3))
    array = AihwkitCrossbar(weight, config)
    before = array.weight()
    x, d = draw(4, 10, IN, seed=11), draw(4, 10, OUT, seed=12)
    array.update(x, d, 0.01)
    wanted = -0.01 * torch.einsum("abo,abi->oi", d, x)
    moved = array.weight() - before
    cosine = torch.nn.functional.cosine_similarity(moved.flatten(), wanted.flatten(), dim=0)
    assert float(cosine) > 0.7
    ratio = float((moved * wanted).sum() / wanted.square().sum())
    assert 0.4 < ratio < 1.6


def test_bad_updates_are_refused(weight):
    array, x, d = AihwkitCrossbar(weight, SingleRPUConfig()), torch.ones(2, IN), torch.ones(2, OUT)
    with pytest.raises(InputError, match="learning_rate: found 0"):
        array.update(x, d, 0.0)
    with pytest.raises(InputError, match=r"update: d: found \(1, 30\), allowed: \(2, 30\)"):
        array.update(x, d[:1], 0.1)
    with pytest.raises(InputError, match="update: found NaN"):
        array.update(x * float("nan"), d, 0.1)


def test_an_inference_time_needs_a_noise_model(weight):
    with pytest.raises(InputError, match=r"inference_time_s: found 10\.0 with SingleRPUConfig"):
        AihwkitCrossbar(weight, SingleRPUConfig(), inference_time_s=10.0)
    with pytest.raises(InputError, match="inference_time_s: found -1, allowed: 0 s or more"):
        AihwkitCrossbar(weight, InferenceRPUConfig(), inference_time_s=-1)


def test_a_programmed_chip_reads_what_it_holds_in_both_directions(weight):
    config = InferenceRPUConfig(
        forward=IOParameters(is_perfect=True), mapping=tiled(weight_scaling_omega=1.0)
    )
    array = AihwkitCrossbar(weight, config, inference_time_s=3600.0)
    held = array.weight()
    assert 0.01 < float((held - weight).norm() / weight.norm()) < 0.3
    x, d = draw(ROWS, IN, seed=13), draw(ROWS, OUT, seed=14)
    torch.testing.assert_close(array.read(x), x @ held.T, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(array.read_transpose(d), d @ held, rtol=1e-4, atol=1e-5)


def test_settings_without_effect_are_named(weight):
    assert AihwkitCrossbar(weight, presets.EcRamPreset()).left_out == ()
    assert len(AihwkitCrossbar(weight, presets.ReRamES2Preset()).left_out) == 2
