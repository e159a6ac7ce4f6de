"""Gradients, measured on a chip or by backpropagation, in one form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from eptsim.base.errors import InputError
from eptsim.digital.loss import check_ids, count_targets
from eptsim.ep.record import PhaseRecord
from eptsim.olmo2.model import Olmo2


@dataclass(frozen=True)
class Gradient:
    """Gradient of the mean cross-entropy per target token.

    Attributes
    ----------
    grads : dict
        Hugging Face parameter name -> tensor of the parameter's shape.
    phases : tuple of PhaseRecord
        Settle records, in the order in which the phases ran; empty for backpropagation.
    loss : float
        Mean cross-entropy of the free phase (inference), nats per target token.
    settings : dict
        What was asked for: measurement, reference, range policy, beta, ...
    """

    grads: dict[str, Tensor]
    phases: tuple[PhaseRecord, ...]
    loss: float
    settings: Mapping[str, object] = field(default_factory=dict)


def check_targets(model: Olmo2, tokens: Tensor, targets: Tensor) -> int:
    """Number of target tokens, after checking ``tokens`` and ``targets``, both (B, T).

    Raises InputError for ids outside the vocabulary (targets may be -100), different shapes, or no
    target at all.
    """
    for name, ids in (("tokens", tokens), ("targets", targets)):
        if not isinstance(ids, Tensor):
            raise InputError(f"{name}: found {type(ids).__name__}, allowed: an integer tensor.")
    model.check_tokens(tokens)
    if targets.shape != tokens.shape:
        raise InputError(
            f"targets: found shape {tuple(targets.shape)}, allowed: that of the tokens, "
            f"{tuple(tokens.shape)}."
        )
    check_ids(targets, model.shape.vocab_size, "targets", ignore=True)
    count = int(count_targets(targets))
    if count == 0:
        raise InputError("targets: found only -100, allowed: 1 or more target tokens.")
    return count


def backprop_gradient(model: Olmo2, tokens: Tensor, targets: Tensor) -> Gradient:
    """The yardstick: digital backpropagation (torch autograd) on the model's own weights.

    ``tokens``, ``targets``: (B, T). The parameters' ``.grad`` is left alone. Raises InputError as
    :func:`check_targets` does.
    """
    check_targets(model, tokens, targets)
    names = [name for name, _ in model.named_parameters()]
    parameters = [value for _, value in model.named_parameters()]
    frozen = [name for name, value in model.named_parameters() if not value.requires_grad]
    if frozen:
        raise InputError(
            f"backprop_gradient: found requires_grad False on {frozen[0]}, allowed: True on all."
        )
    with torch.inference_mode(mode=False), torch.enable_grad():
        loss = model.loss(tokens.clone(), targets.clone())
        values = torch.autograd.grad(loss, parameters)
    return Gradient(
        dict(zip(names, values, strict=True)), (), float(loss.detach()), {"measurement": "backprop"}
    )
