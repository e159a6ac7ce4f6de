"""One block: parts against transformers' layer, and the matmul seam."""

from collections.abc import Callable

import pytest
import torch
from torch.nn.functional import linear
from transformers import Olmo2ForCausalLM

from eptsim.base.errors import InputError
from eptsim.olmo2.block import (
    ARRAYS,
    GAINS,
    MATRICES,
    Matmul,
    add_normed,
    attention_core,
    block_forward,
)
from eptsim.olmo2.model import Olmo2
from eptsim.olmo2.shape import Olmo2Shape

SHAPE = Olmo2Shape(vocab_size=11, hidden_size=24, num_hidden_layers=2, num_attention_heads=3)


def _state(positions: int = 9) -> torch.Tensor:
    return torch.randn(2, positions, 24, generator=torch.Generator().manual_seed(0))


def _run(model: Olmo2, z: torch.Tensor, matmul: Matmul) -> torch.Tensor:
    shape = model.shape
    rotary = model.rotary(z.shape[1])
    heads, eps = shape.num_attention_heads, shape.rms_norm_eps
    return block_forward(z, model.block_gains(1), rotary, heads, eps, matmul)


def test_arrays_and_gains_cover_every_parameter_of_a_block_once() -> None:
    assert tuple(MATRICES) == ARRAYS
    named = [name for array in ARRAYS for name in MATRICES[array]] + list(GAINS.values())
    prefix = "model.layers.0."
    block = [n.removeprefix(prefix) for n in SHAPE.parameter_shapes() if n.startswith(prefix)]
    assert sorted(named) == sorted(block)


def test_block_is_transformers_layer(
    make_model: Callable[..., Olmo2], make_oracle: Callable[[Olmo2], Olmo2ForCausalLM]
) -> None:
    model, z = make_model(SHAPE, scale=5.0), _state()
    oracle = make_oracle(model)
    table = model.rotary(9)
    mask = torch.full((9, 9), -torch.inf).triu(1)[None, None]
    theirs = oracle.model.layers[1](
        z, attention_mask=mask, position_embeddings=(table.cos[None], table.sin[None])
    )
    ours = _run(model, z, lambda name, x: linear(x, model.block_weight(1, name)))
    assert (ours - theirs).abs().max() < 1e-5


def test_matmul_sees_every_array_once_with_its_shape(make_model: Callable[..., Olmo2]) -> None:
    model = make_model(SHAPE)
    seen: list[tuple[str, int, int]] = []

    def matmul(name: str, x: torch.Tensor) -> torch.Tensor:
        y = linear(x, model.block_weight(1, name))
        seen.append((name, x.shape[-1], y.shape[-1]))
        return y

    _run(model, _state(), matmul)
    assert seen == [
        ("qkv", 24, 72),
        ("proj", 24, 24),
        ("w1", 24, 64),
        ("w3", 24, 64),
        ("w2", 64, 24),
    ]


@pytest.mark.parametrize("array", ARRAYS)
def test_perturbing_an_array_changes_the_output(
    make_model: Callable[..., Olmo2], array: str
) -> None:
    model, z = make_model(SHAPE, scale=5.0), _state()
    noise = torch.Generator().manual_seed(5)

    def matmul(name: str, x: torch.Tensor) -> torch.Tensor:
        weight = model.block_weight(1, name)
        if name == array:
            weight = weight + 0.01 * torch.randn(weight.shape, generator=noise)
        return linear(x, weight)

    ideal = _run(model, z, lambda name, x: linear(x, model.block_weight(1, name)))
    assert (_run(model, z, matmul) - ideal).abs().max() > 1e-3


def test_the_norm_is_on_the_update() -> None:
    x, update = torch.full((1, 1, 2), 5.0), torch.tensor([[[3.0, -3.0]]])
    y = add_normed(x, update, torch.tensor([1.0, 2.0]), 1e-12)
    assert torch.allclose(y, torch.tensor([[[6.0, 3.0]]]))


def test_query_norm_is_on_the_full_width_before_the_head_split() -> None:
    model = Olmo2(SHAPE)
    gains, table = model.block_gains(0), model.rotary(4)
    qkv = torch.randn(1, 4, 72, generator=torch.Generator().manual_seed(0))
    y = attention_core(qkv, gains, table, 3, 1e-5)
    scaled = qkv.clone()
    scaled[..., :24] *= 7.0  # a common factor on all heads is normed away ...
    assert torch.allclose(attention_core(scaled, gains, table, 3, 1e-5), y, atol=1e-5)
    scaled[..., :8] *= 7.0  # ... on one head it is not
    assert not torch.allclose(attention_core(scaled, gains, table, 3, 1e-5), y, atol=1e-2)


def test_values_are_not_normed() -> None:
    model = Olmo2(SHAPE)
    gains, table = model.block_gains(0), model.rotary(4)
    qkv = torch.randn(1, 4, 72, generator=torch.Generator().manual_seed(0))
    y = attention_core(qkv, gains, table, 3, 1e-5)
    qkv[..., 48:] *= 7.0
    assert torch.allclose(attention_core(qkv, gains, table, 3, 1e-5), 7.0 * y, atol=1e-5)


def test_a_table_for_another_length_is_refused() -> None:
    model = Olmo2(SHAPE)
    with pytest.raises(InputError, match="found a table of 5 positions, allowed: 4"):
        attention_core(torch.zeros(1, 4, 72), model.block_gains(0), model.rotary(5), 3, 1e-5)
