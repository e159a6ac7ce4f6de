"""Counts of digital operations against loops, torch's own counter and the parameters."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from eptsim.olmo2.block import MATRICES
from eptsim.olmo2.model import Olmo2
from eptsim.olmo2.operations import (
    block_forward_operations,
    block_vjp_operations,
    outer_product_operations,
    readout_operations,
)
from eptsim.olmo2.shape import Olmo2Shape

B, T, C, H, V = 3, 5, 12, 3, 17
SHAPE = Olmo2Shape(vocab_size=V, hidden_size=C, num_hidden_layers=1, num_attention_heads=H)


def test_attention_counts_the_pairs_under_the_causal_mask():
    macs = exponentials = 0
    for _ in range(B * H):
        for query in range(T):
            for _ in range(query + 1):
                macs += 2 * (C // H)  # q k^T and A v
                exponentials += 1
    found = block_forward_operations(SHAPE, B, T)
    assert found["attention_mac"] == macs
    assert found["softmax"] == exponentials


def test_elements_of_one_block():
    """Norms on q, k, and both outputs; rotations of q and k; a gate and two residual adds."""
    found = block_forward_operations(SHAPE, B, T)
    inner = SHAPE.intermediate_size
    assert inner == 64
    assert found["norm"] == B * T * (C + C + C + C)
    assert found["rope"] == B * T * (C + C)
    assert found["silu"] == B * T * inner
    assert found["elementwise"] == B * T * (inner + C + C)


def test_vjp_redoes_the_forward_and_has_two_factors_where_there_were_two():
    forward = block_forward_operations(SHAPE, B, T)
    vjp = block_vjp_operations(SHAPE, B, T)
    assert vjp.keys() == forward.keys()
    for name in ("norm", "rope", "silu", "softmax"):
        assert vjp[name] == 2 * forward[name]
    # each of the two products of attention again, and two products back for each
    assert vjp["attention_mac"] == 3 * forward["attention_mac"]
    assert vjp["elementwise"] == 2 * forward["elementwise"] + B * T * SHAPE.intermediate_size


def test_outer_products_touch_every_cell_once_per_token():
    model = Olmo2(SHAPE)
    cells = sum(
        model.get_parameter(f"model.layers.0.{suffix}").numel()
        for suffixes in MATRICES.values()
        for suffix in suffixes
    )
    assert outer_product_operations(SHAPE, B, T) == {"outer_product_mac": B * T * cells}


def test_readout_has_the_products_that_torch_counts():
    model = Olmo2(SHAPE)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model.readout(torch.zeros(B, T, C))
    found = readout_operations(SHAPE, B, T)
    assert 2 * found["readout_mac"] == counter.get_total_flops()
    assert (found["norm"], found["softmax"]) == (B * T * C, B * T * V)


@pytest.mark.parametrize(
    "count", [block_forward_operations, block_vjp_operations, outer_product_operations,
              readout_operations],
)
def test_counts_are_integers_and_proportional_to_the_batch(count):
    once, four = count(SHAPE, 1, T), count(SHAPE, 4, T)
    assert all(type(value) is int and value > 0 for value in once.values())
    assert four == {name: 4 * value for name, value in once.items()}


def test_attention_grows_with_the_square_of_the_length():
    short, long = (block_forward_operations(SHAPE, 1, t)["attention_mac"] for t in (100, 200))
    assert long / short == pytest.approx(4, rel=0.01)
