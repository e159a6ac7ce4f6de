"""Making an array: its arguments checked, its lines drawn, its cells programmed."""

from __future__ import annotations

import torch

from eptsim.base.errors import InputError, choice
from eptsim.base.streams import check_seed
from eptsim.cards import Card
from eptsim.crossbar.archive import ArrayState
from eptsim.crossbar.checks import check_weight
from eptsim.crossbar.memory import Memory
from eptsim.crossbar.scaling import Tiling
from eptsim.crossbar.stages import DIRECTIONS, RANGE_POLICIES, line_stage


def programmed_state(
    weight: torch.Tensor,
    card: object,
    seed: int,
    path: object,
    range_policy: str | None,
    fused: bool | None,
) -> ArrayState:
    """A new array that holds ``weight`` (out, in); arguments and errors as of ``Crossbar``."""
    if not isinstance(path, str) or not _is_unicode(path):
        raise InputError(f"path: found {path!r}, allowed: a text.")
    check_weight(weight, path)
    if not isinstance(card, Card):
        raise InputError(f"card: found {type(card).__name__}, allowed: a Card (eptsim.load_card).")
    seed = check_seed(seed)
    policy = choice("per_vector" if range_policy is None else range_policy, RANGE_POLICIES,
                    "range_policy")
    on_cpu = weight.device.type == "cpu"
    if fused and not on_cpu:
        raise InputError(f"fused: found True on {weight.device}, allowed: True on cpu only.")
    tiling = Tiling.of((weight.shape[0], weight.shape[1]), card.array)
    lines = {
        direction: line_stage(
            card, direction, seed, path, tiling.lines(direction, card.array.slices), weight.dtype,
            weight.device,
        )
        for direction in DIRECTIONS
    }
    exact = {stage.exact for stage in lines.values()}
    memory = Memory.program(weight.detach().contiguous(), card, seed, path, exact)
    return ArrayState(
        card, seed, path, policy, on_cpu if fused is None else fused, memory, lines, {},
        dict.fromkeys(DIRECTIONS), dict.fromkeys(DIRECTIONS, 0), 0.0,
    )


def _is_unicode(text: str) -> bool:
    """Whether ``text`` is one that files can hold: no half of a surrogate pair."""
    return not any("\ud800" <= character <= "\udfff" for character in text)
