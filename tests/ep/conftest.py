"""Small networks whose gradients are known, and ways to ask a chip for them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace

import numba
import pytest
import torch
from torch import Tensor

import eptsim
from eptsim.ep.gradient import Gradient


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Networks this small run faster on one thread than on several that wait for each other."""
    before = torch.get_num_threads(), numba.get_num_threads()
    torch.set_num_threads(1)
    numba.set_num_threads(1)
    yield
    torch.set_num_threads(before[0])
    numba.set_num_threads(before[1])


@pytest.fixture(scope="session")
def make_network() -> Callable[..., SimpleNamespace]:
    """``make_network(...)``: a model with trained-like scales, ``tokens`` and ``targets``."""

    def make(
        *,
        seed: int = 0,
        dtype: torch.dtype = torch.float64,
        vocabulary: int = 40,
        hidden: int = 32,
        blocks: int = 3,
        heads: int = 4,
        batch: int = 2,
        positions: int = 12,
    ) -> SimpleNamespace:
        shape = eptsim.Olmo2Shape(
            vocab_size=vocabulary,
            hidden_size=hidden,
            num_hidden_layers=blocks,
            num_attention_heads=heads,
        )
        model = eptsim.Olmo2(shape, seed=seed, dtype=dtype)
        generator = torch.Generator().manual_seed(seed + 1)
        with torch.no_grad():
            for name, value in model.named_parameters():
                draw = torch.randn(value.shape, generator=generator, dtype=torch.float64)
                if value.dim() == 1:
                    value.copy_(1 + 0.2 * draw)
                elif "embed" in name:
                    value.copy_(0.5 * draw)
                else:
                    value.copy_(draw / math.sqrt(value.shape[1]))
        ids = torch.randint(0, vocabulary, (batch, positions + 1), generator=generator)
        return SimpleNamespace(model=model, tokens=ids[:, :-1], targets=ids[:, 1:])

    return make


@pytest.fixture(scope="session")
def network(make_network) -> SimpleNamespace:
    """Three blocks, width 32, 24 tokens, float64. Shared: do not change it."""
    return make_network()


@pytest.fixture(scope="session")
def tiny(make_network) -> SimpleNamespace:
    """Two blocks, width 16, 6 tokens, float64. Shared: do not change it."""
    return make_network(hidden=16, heads=2, blocks=2, batch=1, positions=6, vocabulary=20)


@pytest.fixture(scope="session")
def ideal() -> eptsim.Card:
    return eptsim.load_card("ideal")


@pytest.fixture(scope="session")
def backprop(network) -> Gradient:
    return eptsim.backprop_gradient(network.model, network.tokens, network.targets)


@pytest.fixture(scope="session")
def gradient_on() -> Callable[..., Gradient]:
    """``gradient_on(network, card, seed=0, **settings)``: one gradient of a fresh chip."""

    def gradient(
        network: SimpleNamespace, card: eptsim.Card, seed: int = 0, **settings
    ) -> Gradient:
        chip = eptsim.Chip(network.model, card, seed=seed)
        controller = eptsim.EPController(chip, **settings)
        return controller.gradient(network.tokens, network.targets)

    return gradient


@pytest.fixture(scope="session")
def error() -> Callable[..., float]:
    """``error(g, g0)``: |g - g0| / |g0| over every parameter, or those whose name has ``part``."""

    def grads(g: Gradient | Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        return g.grads if isinstance(g, Gradient) else g

    def relative(a: Gradient, b: Gradient, part: str = "") -> float:
        left, right = grads(a), grads(b)
        assert left.keys() == right.keys()
        names = [name for name in right if part in name]
        away = sum(float((left[n].double() - right[n].double()).square().sum()) for n in names)
        return math.sqrt(away / sum(float(right[n].double().square().sum()) for n in names))

    return relative


@pytest.fixture(scope="session")
def combine() -> Callable[..., dict[str, Tensor]]:
    """``combine((factor, g), ...)``: a weighted sum of gradients, for extrapolation in beta."""

    def weighted(*terms: tuple[float, Gradient]) -> dict[str, Tensor]:
        return {name: sum(f * g.grads[name] for f, g in terms) for name in terms[0][1].grads}

    return weighted
