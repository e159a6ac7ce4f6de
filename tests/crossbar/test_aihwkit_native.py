import sys

import pytest
import torch
from aihwkit.simulator.configs import (
    FloatingPointRPUConfig,
    SingleRPUConfig,
    TorchInferenceRPUConfig,
)

from eptsim.base.errors import InputError
from eptsim.crossbar import aihwkit_native as native


def noisy_tile():
    tile = SingleRPUConfig().create_tile(3, 5, bias=False)
    tile.set_weights(torch.zeros(3, 5))
    return tile.tile


def read(simulator) -> torch.Tensor:
    return simulator.forward(torch.ones(1, 5), *native.FORWARD)


def test_a_word_is_a_function_of_its_address():
    assert native.word(1, "a", 2) == native.word(1, "a", 2)
    found = {native.word(1, "a", row) for row in range(10_000)}
    assert len(found) > 9_990
    assert min(found) >= 1 and max(found) < 2**31 - 1
    assert native.word(1, "ab") != native.word(1, "a", "b")


def test_a_seeded_table_makes_two_tiles_draw_the_same():
    tiles = [noisy_tile(), noisy_tile()]
    drawn = []
    for tile in tiles:
        native.fill_table(tile, 5)
        native.start_rand(7)
        drawn.append(torch.cat([read(tile) for _ in range(20)]))
    assert torch.equal(*drawn)
    native.start_rand(8)
    assert not torch.equal(drawn[0][:1], read(tiles[0]))


def test_another_table_draws_other_numbers_at_the_same_index():
    tile, found = noisy_tile(), []
    for seed in (5, 6):
        native.fill_table(tile, seed)
        native.start_rand(7)
        found.append(torch.cat([read(tile) for _ in range(5)]))
    assert not torch.equal(*found)


def test_only_a_tile_can_be_seeded():
    with pytest.raises(InputError, match=r"noise cannot be seeded.*aihwkit==1\.1\.0"):
        native.fill_table(TorchInferenceRPUConfig().create_tile(2, 2).tile, 1)


def test_cpp_and_torch_tiles_are_told_apart():
    assert native.in_cpp(FloatingPointRPUConfig().create_tile(2, 2).tile)
    assert native.in_cpp(noisy_tile())
    assert not native.in_cpp(TorchInferenceRPUConfig().create_tile(2, 2).tile)


def test_torchs_generator_is_put_back():
    before = torch.get_rng_state()
    with native.torch_seed(3):
        first = torch.randn(4)
    with native.torch_seed(3):
        assert torch.equal(first, torch.randn(4))
    assert torch.equal(before, torch.get_rng_state())


@pytest.fixture
def fresh():
    """The check of the installation is done once per process; here again, and again after it."""
    native.require_aihwkit.cache_clear()
    yield
    native.require_aihwkit.cache_clear()


def test_a_missing_aihwkit_is_named_with_its_torch(fresh, monkeypatch):
    def missing(name: str) -> str:
        raise native.PackageNotFoundError(name)

    monkeypatch.setattr(native, "version", missing)
    with pytest.raises(InputError, match=r"found none.*aihwkit 1\.1\.0 with torch 2\.10"):
        native.require_aihwkit()


@pytest.mark.parametrize(("aihwkit", "torch_version"), [("1.1.0", "2.13.0"), ("1.0.0", "2.10.0")])
def test_versions_that_do_not_match_are_named_with_those_that_do(
    fresh, monkeypatch, aihwkit, torch_version
):
    monkeypatch.setattr(native, "version", lambda name: aihwkit)
    monkeypatch.setattr(torch, "__version__", torch_version)
    with pytest.raises(InputError, match=rf"found {aihwkit} with torch {torch_version}") as error:
        native.require_aihwkit()
    assert "'aihwkit==1.1.0' 'torch==2.10.*'" in str(error.value)


def test_a_build_that_does_not_load_is_an_error_with_advice(fresh, monkeypatch):
    monkeypatch.setitem(sys.modules, "aihwkit.simulator.configs", None)
    with pytest.raises(InputError, match=r"does not run:.*this install is damaged"):
        native.require_aihwkit()
