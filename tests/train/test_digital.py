"""The digital trainer: it learns, it repeats itself, and it stops on what is not finite."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from eptsim.base.errors import InputError, TextError
from eptsim.olmo2.corpus import Corpus
from eptsim.olmo2.model import Olmo2
from eptsim.olmo2.shape import Olmo2Shape
from eptsim.train import digital
from eptsim.train.digital import StepRecord, TrainHistory, schedule, train_digital, validation_loss

CYCLE = Corpus.from_tokens(np.arange(2000) % 7, 7)


class Bigram(nn.Module):
    """Logits of the next token from this one alone."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.zeros(7, 7))
        self.gain = nn.Parameter(torch.ones(7))

    def forward(self, tokens: Tensor) -> Tensor:
        return self.table[tokens] * self.gain


def train(model: nn.Module, **changes: object) -> TrainHistory:
    settings = {"steps": 30, "batch_size": 4, "length": 8, "learning_rate": 0.1, "seed": 0}
    return train_digital(model, CYCLE, **(settings | changes))  # type: ignore[arg-type]


def test_learns_the_next_token() -> None:
    history = train(Bigram(), steps=100)
    assert history.validation_before == pytest.approx(math.log(7))
    assert history.validation_after < 0.1
    assert history.records[0].loss == pytest.approx(math.log(7))
    assert history.records[-1].loss < 0.1


def test_learns_with_the_real_model() -> None:
    shape = Olmo2Shape(
        vocab_size=7,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
    )
    history = train(Olmo2(shape, seed=0), steps=40, learning_rate=0.02)
    assert history.validation_after < 0.5 < history.validation_before


def test_every_step_is_reported_as_it_is_done() -> None:
    seen: list[StepRecord] = []
    history = train(Bigram(), on_step=seen.append)
    assert tuple(seen) == history.records
    assert [record.step for record in seen] == list(range(1, 31))
    assert all(record.tokens_per_s > 0 and record.gradient_norm > 0 for record in seen)
    assert history.seconds > 0


def test_the_same_seed_gives_the_same_weights() -> None:
    state = torch.get_rng_state()
    models = [Bigram() for _ in range(3)]
    losses = [
        [record.loss for record in train(model, seed=seed).records]
        for model, seed in zip(models, (1, 1, 2), strict=True)
    ]
    assert losses[0] == losses[1] != losses[2]
    assert torch.equal(models[0].table, models[1].table)
    assert not torch.equal(models[0].table, models[2].table)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("steps", [1, 2, 9, 10, 150, 5000])
def test_schedule_warms_up_and_decays(steps: int) -> None:
    rates = [schedule(step, steps) for step in range(1, steps + 1)]
    assert max(rates) == 1.0 and min(rates) > 0.0
    peak = rates.index(1.0)
    assert rates[: peak + 1] == sorted(rates[: peak + 1])
    assert rates[peak:] == sorted(rates[peak:], reverse=True)
    if steps > 1:
        assert rates[-1] == pytest.approx(digital.FINAL_FRACTION)


def test_matrices_decay_and_gains_do_not() -> None:
    model = Bigram()
    groups = digital._adamw(model, 0.1).param_groups
    assert [group["weight_decay"] for group in groups] == [digital.WEIGHT_DECAY, 0.0]
    assert groups[0]["params"] == [model.table] and groups[1]["params"] == [model.gain]


def test_the_update_is_clipped() -> None:
    model = Bigram()
    with torch.no_grad():
        model.gain.fill_(1e4)
    history = train(model, steps=1)
    assert history.records[0].gradient_norm > 100
    clipped = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
    assert float(clipped.norm()) == pytest.approx(digital.CLIP_NORM, rel=1e-4)


def test_a_loss_that_is_not_finite_stops_before_the_update() -> None:
    model = Bigram()
    with torch.no_grad():
        model.table[3, 3] = float("nan")
    before = model.gain.detach().clone()
    with pytest.raises(InputError, match=r"found a loss of nan at step 1.*Lower the learning rate"):
        train(model)
    assert torch.equal(model.gain, before)


def test_a_gradient_that_is_not_finite_is_named() -> None:
    class Cliff(Bigram):
        def forward(self, tokens: Tensor) -> Tensor:
            return self.table[tokens] + torch.sqrt(self.gain - 1.0)  # infinite slope at 1

    with pytest.raises(InputError, match=r"found a gradient norm of (nan|inf) at step 1"):
        train(Cliff())


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"steps": 0}, InputError, "steps: found 0, allowed: 1 or more"),
        ({"learning_rate": 0.0}, InputError, "learning_rate: found 0.0"),
        ({"learning_rate": float("nan")}, InputError, "learning_rate: found nan"),
        ({"batch_size": 0}, TextError, "batch_size: found 0"),
        ({"seed": -1}, InputError, "seed: found -1"),
        ({"length": 300}, TextError, "200 validation tokens, allowed for length 300"),
    ],
)
def test_settings_out_of_range(
    changes: dict[str, object], error: type[InputError], message: str
) -> None:
    with pytest.raises(error, match=message):
        train(Bigram(), **changes)


def test_validation_loss_does_not_depend_on_the_batch_size() -> None:
    model = Bigram()
    with torch.no_grad():
        model.table.copy_(torch.arange(49.0).reshape(7, 7) % 5)
    losses = [validation_loss(model, CYCLE, size, 8) for size in (1, 3, 64)]
    assert losses == pytest.approx([losses[0]] * 3)
    assert validation_loss(model, CYCLE, 1, 8, windows=1) != pytest.approx(losses[0], rel=1e-6)
