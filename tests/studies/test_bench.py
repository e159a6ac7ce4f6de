"""The bench: identity by content, the yardstick, and the windows of a text."""

import numpy as np
import pytest
import torch

import eptsim
from eptsim.base.errors import InputError, TextError
from eptsim.studies.bench import Bench, model_sha256, windows


def test_the_yardstick_is_backpropagation(bench):
    exact = eptsim.backprop_gradient(bench.model, bench.tokens, bench.targets)
    assert bench.exact.loss == exact.loss


def test_identity_follows_weights_text_and_card(bench, make):
    assert bench.settings == make("ideal").settings
    assert bench.settings != make("harsh").settings
    other = Bench(bench.model, bench.tokens.flip(1), bench.targets, bench.card)
    assert other.settings["text_sha256"] != bench.settings["text_sha256"]
    before = model_sha256(bench.model)
    with torch.no_grad():
        bench.model.get_parameter("lm_head.weight")[0, 0] += 1
    assert model_sha256(bench.model) != before


def test_refuses_what_the_model_cannot_take(bench):
    with pytest.raises(InputError, match="tokens"):
        Bench(bench.model, bench.tokens + 32, bench.targets, bench.card)
    with pytest.raises(InputError, match="card"):
        Bench(bench.model, bench.tokens, bench.targets, "ideal")


def test_windows_are_consecutive_and_targets_are_next():
    tokens, targets = windows(np.arange(100), 2, 5, "x")
    assert tokens.tolist() == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]
    assert targets.tolist() == [[1, 2, 3, 4, 5], [6, 7, 8, 9, 10]]


@pytest.mark.parametrize(
    ("batch", "length", "match"),
    [(2, 5, "a.txt: found 10 tokens.*at least 11"), (0, 5, "batch"), (1, 0, "length")],
)
def test_windows_say_what_is_missing(batch, length, match):
    with pytest.raises(TextError, match=match):
        windows(np.arange(10), batch, length, "a.txt")
