"""Cross-entropy of next-token predictions, summed over tokens."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from eptsim.base.errors import InputError

IGNORE_INDEX = -100
"""Target that marks a position without a target token, as in torch and transformers."""

_INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


def check_ids(ids: Tensor, size: int, what: str, *, ignore: bool = False) -> None:
    """Raise InputError unless ``ids`` (any shape) are integers in [0, size).

    With ``ignore``, ``IGNORE_INDEX`` is allowed too. The message names the first bad value and its
    position.
    """
    extra = f", or {IGNORE_INDEX} to ignore a position" if ignore else ""
    if ids.dtype not in _INTEGERS:
        raise InputError(f"{what}: found dtype {ids.dtype}, allowed: an integer dtype")
    wide = ids.long()
    bad = (wide < 0) | (wide >= size)
    if ignore:
        bad &= wide != IGNORE_INDEX
    if bool(bad.any()):
        where = tuple(int(i) for i in bad.nonzero()[0])
        raise InputError(
            f"{what}: found {int(wide[where])} at position {where}, allowed: 0 to {size - 1}{extra}"
        )


def cross_entropy_sum(logits: Tensor, targets: Tensor) -> Tensor:
    """Sum over the target tokens of ``-log softmax(logits)[target]``, in nats.

    Summed, not averaged: the force on a token must not depend on how many others there are.

    Parameters
    ----------
    logits : Tensor, shape (..., V)
    targets : Tensor of integers, shape (...)
        The token that each position should predict (already shifted); ``IGNORE_INDEX`` for none.

    Returns
    -------
    Tensor, scalar, in the dtype of ``logits``; zero where every target is ignored.

    Raises
    ------
    InputError
        Shapes that do not match, non-integer targets, a target outside the vocabulary.
    """
    if logits.shape[:-1] != targets.shape:
        raise InputError(
            f"targets: found shape {tuple(targets.shape)}, "
            f"allowed: {tuple(logits.shape[:-1])}, that of the logits without their last dimension"
        )
    vocabulary = logits.shape[-1]
    check_ids(targets, vocabulary, "targets", ignore=True)
    return cross_entropy(
        logits.reshape(-1, vocabulary),
        targets.reshape(-1).long(),
        ignore_index=IGNORE_INDEX,
        reduction="sum",
    )


def count_targets(targets: Tensor) -> int:
    """Number of target tokens in ``targets`` (any shape): those that are not ``IGNORE_INDEX``."""
    return int((targets != IGNORE_INDEX).sum())
