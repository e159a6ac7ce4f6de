"""docs/conventions.md, pinned."""

import torch

import eptsim
from eptsim.chip import Chip


def _crossbar(overrides, weight):
    return eptsim.Crossbar(weight, eptsim.load_card("ideal").override(overrides), seed=0)


def test_weight_is_out_in_and_the_transposed_read_goes_back():
    weight = torch.arange(6.0).reshape(2, 3)
    xbar = _crossbar({}, weight)
    x, d = torch.tensor([1.0, 0.0, 2.0]), torch.tensor([1.0, -1.0])
    assert torch.equal(xbar.read(x), torch.tensor([4.0, 13.0]))
    assert torch.equal(xbar.read_transpose(d), torch.tensor([-3.0, -3.0, -3.0]))


def test_rows_are_inputs_and_columns_are_outputs():
    xbar = _crossbar({"array.rows": 4, "array.columns": 5}, torch.ones(11, 9))
    assert xbar.segments("forward") == 3  # 9 inputs on tiles of 4 rows
    assert xbar.segments("transpose") == 3  # 11 outputs on tiles of 5 columns


def test_an_all_zero_vector_is_driven_at_range_1_and_shows_the_offset_in_normalised_units():
    weight = torch.full((4, 3), 0.25)  # largest weight 0.25: the digital rescale
    xbar = _crossbar({"forward.offset": 0.01}, weight)
    want = 0.25 * xbar.stage("forward").offset[0]
    assert torch.allclose(xbar.read(torch.zeros(3)), want, rtol=1e-6)


def test_converter_codes():
    weight = torch.eye(1)
    xbar = _crossbar({"forward.dac_bits": 3}, weight)
    x = torch.linspace(-1.5, 1.5, 101)[:, None]
    codes = torch.unique(xbar.read(x, range_policy="fixed"))
    assert torch.allclose(codes, torch.arange(-3.0, 4.0) / 3)


def test_fused_array_order_and_names():
    shape = eptsim.Olmo2Shape(
        vocab_size=7, hidden_size=8, num_hidden_layers=2, num_attention_heads=2
    )
    model = eptsim.Olmo2(shape, seed=1)
    chip = Chip(model, eptsim.load_card("ideal"))
    assert list(chip.arrays)[:5] == [f"layers.0.{a}" for a in ("qkv", "proj", "w1", "w3", "w2")]
    parts = [model.get_parameter(f"model.layers.1.self_attn.{n}_proj.weight") for n in "qkv"]
    stored = chip.arrays["layers.1.qkv"].weight()
    assert torch.allclose(stored, torch.cat(parts), rtol=1e-6)
