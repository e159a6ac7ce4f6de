"""A tiny model and batch that every study test measures on."""

import pytest
import torch

import eptsim
from eptsim.studies.bench import Bench

SHAPE = eptsim.Olmo2Shape(
    vocab_size=32, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2
)


@pytest.fixture
def bench():
    return make_bench("ideal")


def make_bench(card, dtype=torch.float64, changes=()):
    model = eptsim.Olmo2(SHAPE, seed=0, dtype=dtype)
    with torch.no_grad():  # states of order 1, as a trained model has: beta 0.01 then settles fast
        model.get_parameter("model.embed_tokens.weight").mul_(50)
    ids = torch.randint(32, (2, 9), generator=torch.Generator().manual_seed(0))
    return Bench(model, ids[:, :-1], ids[:, 1:], eptsim.load_card(card).override(dict(changes)))


@pytest.fixture
def make():
    return make_bench
