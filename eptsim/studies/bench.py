"""What a study measures on: a model, a batch of text and a card, and the exact gradient there."""

from __future__ import annotations

import hashlib
from functools import cached_property
from typing import Any, final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from eptsim.base.errors import InputError, TextError
from eptsim.cards import Card
from eptsim.ep.gradient import Gradient, backprop_gradient, check_targets
from eptsim.olmo2.model import Olmo2


@final
class Bench:
    """A model, its tokens and targets, and a card: all that the tasks of a study share.

    Parameters
    ----------
    model : Olmo2
    tokens, targets : (B, T) integer tensors
        On the model's device; targets are the next tokens, -100 where a position has none.
    card : Card

    Raises
    ------
    InputError
        Tokens or targets that the model cannot take.
    """

    def __init__(self, model: Olmo2, tokens: Tensor, targets: Tensor, card: Card) -> None:
        if not isinstance(card, Card):
            raise InputError(f"Bench: card: found {type(card).__name__}, allowed: a Card.")
        check_targets(model, tokens, targets)
        self.model = model
        self.tokens = tokens
        self.targets = targets
        self.card = card

    @cached_property
    def exact(self) -> Gradient:
        """The yardstick: backpropagation on the model's own, ideal weights."""
        return backprop_gradient(self.model, self.tokens, self.targets)

    @cached_property
    def settings(self) -> dict[str, object]:
        """What identifies the bench in a task's settings: hashes of weights, text and card."""
        return {
            "model_sha256": model_sha256(self.model),
            "text_sha256": _sha256([self.tokens, self.targets]),
            "card": self.card.name,
            "card_sha256": self.card.sha256,
        }


def model_sha256(model: Olmo2) -> str:
    """Hash of every weight of a model and of its shape (hexadecimal, 64 digits)."""
    digest = hashlib.sha256(repr(model.shape).encode())
    for name, value in model.named_parameters():
        digest.update(name.encode())
        digest.update(_sha256([value.detach()]).encode())
    return digest.hexdigest()


def windows(
    tokens: npt.NDArray[np.integer[Any]], batch: int, length: int, source: str
) -> tuple[Tensor, Tensor]:
    """Cut the first ``batch`` windows of ``length`` tokens; (batch, length) tokens and targets.

    Raises
    ------
    TextError
        A size below 1, or fewer than batch * length + 1 tokens.
    """
    for name, value in (("batch", batch), ("length", length)):
        if value < 1:
            raise TextError(f"{name}: found {value}, allowed: 1 or more.")
    need = batch * length + 1
    if len(tokens) < need:
        raise TextError(
            f"{source}: found {len(tokens)} tokens, allowed for a batch of {batch} x {length}: at"
            f" least {need}. Give more text, or a smaller batch or length."
        )
    flat = torch.from_numpy(np.asarray(tokens[:need]).astype(np.int64))
    return flat[:-1].reshape(batch, length), flat[1:].reshape(batch, length)


def _sha256(tensors: list[Tensor]) -> str:
    digest = hashlib.sha256()
    for tensor in tensors:
        array = np.ascontiguousarray(tensor.cpu().numpy())
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        digest.update(array.data)
    return digest.hexdigest()
