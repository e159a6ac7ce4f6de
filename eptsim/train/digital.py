"""The digital trainer: backprop and AdamW on the exact model, no chip.

Gives a model that has learnt something, cheaply, to measure gradients on; and the yardstick for
training on the chip.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from eptsim.base.errors import InputError
from eptsim.olmo2.corpus import Corpus

CLIP_NORM = 1.0
"""Largest norm of the gradient over all parameters."""

FINAL_FRACTION = 0.1
"""Learning rate of the last step, as a fraction of the peak."""

WEIGHT_DECAY = 0.1
"""Of the matrices; the gains of the norms do not decay."""

BETAS = (0.9, 0.95)
"""Of AdamW."""


@dataclass(frozen=True)
class StepRecord:
    """One optimiser step.

    Attributes
    ----------
    step : int
        1 for the first step.
    loss : float
        Mean cross-entropy of the step's batch before its update, nats per token.
    learning_rate : float
        Rate of this step.
    gradient_norm : float
        Norm of the gradient before clipping.
    tokens_per_s : float
        Tokens trained on per second, from the first step to this one.
    """

    step: int
    loss: float
    learning_rate: float
    gradient_norm: float
    tokens_per_s: float


@dataclass(frozen=True)
class TrainHistory:
    """What a training run did.

    Attributes
    ----------
    records : tuple of StepRecord
        One per step.
    validation_before, validation_after : float
        Mean cross-entropy on the same validation windows, nats per token.
    seconds : float
        Wall time of the steps, the two validations left out.
    """

    records: tuple[StepRecord, ...]
    validation_before: float
    validation_after: float
    seconds: float


def train_digital(
    model: nn.Module,
    corpus: Corpus,
    steps: int,
    batch_size: int,
    length: int,
    learning_rate: float,
    seed: int,
    on_step: Callable[[StepRecord], None] | None = None,
) -> TrainHistory:
    """Train ``model`` in place with AdamW: warm-up, cosine decay, gradient clipping at norm 1.

    The same arguments give the same weights (on one machine, with one number of threads).

    Parameters
    ----------
    model : torch.nn.Module
        Maps tokens (B, T) to logits (B, T, V), V at least the corpus's vocabulary.
    corpus : Corpus
        Both of its splits are used.
    steps, batch_size, length : int
        Number of updates, rows B and tokens T of a batch.
    learning_rate : float
        Peak rate, reached after a tenth of the steps (at most 100).
    seed : int
        Of the batches.
    on_step : callable, optional
        Called with the record of every step, as it is done.

    Raises
    ------
    InputError
        A setting out of range, or a loss or gradient that is not finite: the step is named and
        the weights are those before it.
    TextError
        The corpus is too short for ``length``.
    """
    _check(steps, learning_rate)
    device = next(model.parameters()).device
    batches = corpus.batches("train", batch_size, length, seed)
    before = validation_loss(model, corpus, batch_size, length)
    optimiser = _adamw(model, learning_rate)
    records: list[StepRecord] = []
    started = time.perf_counter()
    for step in range(1, steps + 1):
        rate = learning_rate * schedule(step, steps)
        for group in optimiser.param_groups:
            group["lr"] = rate
        tokens, targets = (part.to(device) for part in next(batches))
        loss, norm = _step(model, optimiser, tokens, targets, step)
        elapsed = time.perf_counter() - started
        record = StepRecord(step, loss, rate, norm, step * batch_size * length / elapsed)
        records.append(record)
        if on_step is not None:
            on_step(record)
    seconds = time.perf_counter() - started
    after = validation_loss(model, corpus, batch_size, length)
    return TrainHistory(tuple(records), before, after, seconds)


def schedule(step: int, steps: int) -> float:
    """Learning rate of ``step`` (1 .. steps) over its peak: linear warm-up, then cosine."""
    warm_up = min(100, max(1, steps // 10))
    if step <= warm_up:
        return step / warm_up
    progress = (step - warm_up) / (steps - warm_up)
    return FINAL_FRACTION + (1 - FINAL_FRACTION) * 0.5 * (1 + math.cos(math.pi * progress))


@torch.no_grad()
def validation_loss(
    model: nn.Module, corpus: Corpus, batch_size: int, length: int, windows: int = 64
) -> float:
    """Mean cross-entropy, nats per token, on the first ``windows`` validation windows.

    Windows are of ``length`` tokens and do not overlap; all are taken where there are fewer.

    Raises
    ------
    TextError
        The validation split has fewer than length + 1 tokens.
    """
    device = next(model.parameters()).device
    count = min(windows, corpus.fixed_batches("validation", 1, length))
    if count == 0:
        corpus.fixed_batch("validation", 1, length)  # raises, and says what is missing
    rows = [corpus.fixed_batch("validation", 1, length, index) for index in range(count)]
    total = 0.0
    for first in range(0, count, batch_size):
        part = rows[first : first + batch_size]
        tokens = torch.cat([row[0] for row in part]).to(device)
        targets = torch.cat([row[1] for row in part]).to(device)
        total += float(_loss(model, tokens, targets)) * len(part)
    return total / count


def _loss(model: nn.Module, tokens: Tensor, targets: Tensor) -> Tensor:
    return cross_entropy(model(tokens).flatten(0, 1), targets.flatten())


def _step(
    model: nn.Module, optimiser: torch.optim.Optimizer, tokens: Tensor, targets: Tensor, step: int
) -> tuple[float, float]:
    """Update once; return the loss and the norm of the gradient."""
    optimiser.zero_grad(set_to_none=True)
    loss = _loss(model, tokens, targets)
    loss.backward()  # type: ignore[no-untyped-call]
    norm = nn.utils.clip_grad_norm_(model.parameters(), CLIP_NORM)
    values = loss.item(), norm.item()
    for name, value in zip(("loss", "gradient norm"), values, strict=True):
        if not math.isfinite(value):
            raise InputError(
                f"training: found a {name} of {value} at step {step}, allowed: finite values."
                " Lower the learning rate, or check the weights and the text it started from."
            )
    optimiser.step()
    return values


def _adamw(model: nn.Module, learning_rate: float) -> torch.optim.AdamW:
    parameters = [p for p in model.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in parameters if p.dim() >= 2], "weight_decay": WEIGHT_DECAY},
        {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=learning_rate, betas=BETAS, fused=True)


def _check(steps: int, learning_rate: float) -> None:
    if steps < 1:
        raise InputError(f"steps: found {steps}, allowed: 1 or more.")
    if not (math.isfinite(learning_rate) and learning_rate > 0):
        raise InputError(f"learning_rate: found {learning_rate}, allowed: above 0.")
