"""Sizes, counts and refusals of Olmo2Shape."""

import dataclasses
import math

import numpy as np
import pytest
from transformers import Olmo2Config, Olmo2ForCausalLM

from eptsim.base.errors import InputError
from eptsim.olmo2.shape import Olmo2Shape, default_intermediate_size


def _shape(**changes: object) -> Olmo2Shape:
    values: dict[str, object] = {
        "vocab_size": 11,
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
    }
    return Olmo2Shape(**(values | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize(("vocab", "count"), [(4096, 42_754_560), (32768, 72_114_688)])
def test_paper_counts(vocab: int, count: int) -> None:
    shape = Olmo2Shape.paper(vocab)
    assert (shape.hidden_size, shape.num_attention_heads, shape.num_hidden_layers) == (512, 8, 12)
    assert shape.intermediate_size == 1408
    assert shape.head_dim == 64
    assert shape.max_position_embeddings == 256
    assert shape.parameter_count() == count


@pytest.mark.parametrize(
    ("hidden", "gate"), [(8, 64), (24, 64), (32, 128), (64, 192), (512, 1408), (4096, 10944)]
)
def test_default_intermediate_size(hidden: int, gate: int) -> None:
    assert default_intermediate_size(hidden) == gate
    assert gate % 64 == 0
    assert gate - 64 < 8 * hidden / 3 <= gate


def test_defaults_are_those_of_transformers_except_the_base() -> None:
    shape, theirs = _shape(), Olmo2Config()
    assert shape.rope_theta == 5e5
    assert shape.rms_norm_eps == theirs.rms_norm_eps == 1e-5
    assert shape.max_position_embeddings == theirs.max_position_embeddings


@pytest.mark.parametrize("layers", [1, 11])
def test_parameters_are_transformers_in_name_shape_and_order(layers: int) -> None:
    shape = _shape(num_hidden_layers=layers, intermediate_size=24)
    config = Olmo2Config(
        vocab_size=11,
        hidden_size=32,
        intermediate_size=24,
        num_hidden_layers=layers,
        num_attention_heads=4,
        pad_token_id=None,
        eos_token_id=None,
    )
    theirs = {n: tuple(p.shape) for n, p in Olmo2ForCausalLM(config).named_parameters()}
    assert list(shape.parameter_shapes().items()) == list(theirs.items())
    assert shape.parameter_count() == sum(math.prod(s) for s in theirs.values())


def test_frozen_hashable_comparable_replaceable() -> None:
    shape = _shape()
    assert shape == _shape()
    assert hash(shape) == hash(_shape())
    assert dataclasses.replace(shape, vocab_size=12) == _shape(vocab_size=12)
    with pytest.raises(dataclasses.FrozenInstanceError):
        shape.vocab_size = 3  # type: ignore[misc]


def test_numpy_integers_become_python_ones() -> None:
    assert type(_shape(hidden_size=np.int64(32)).hidden_size) is int


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("vocab_size", 0),
        ("vocab_size", True),
        ("hidden_size", "32"),
        ("hidden_size", 32.0),
        ("intermediate_size", 0),
        ("intermediate_size", -64),
        ("num_hidden_layers", 0),
        ("num_attention_heads", None),
        ("max_position_embeddings", 0),
        ("rope_theta", 0),
        ("rope_theta", math.inf),
        ("rope_theta", "5e5"),
        ("rms_norm_eps", 0.0),
        ("rms_norm_eps", math.nan),
        ("rms_norm_eps", True),
    ],
)
def test_refusals_name_the_entry_and_what_was_found(name: str, value: object) -> None:
    with pytest.raises(InputError, match=f"Olmo2Shape: {name}: found {value!r}, allowed"):
        _shape(**{name: value})


@pytest.mark.parametrize(("hidden", "heads"), [(33, 4), (12, 4), (36, 4)])
def test_heads_must_divide_the_width_into_even_parts(hidden: int, heads: int) -> None:
    with pytest.raises(InputError, match=f"found {hidden} with num_attention_heads {heads}"):
        _shape(hidden_size=hidden, num_attention_heads=heads)
