"""The range that a read drives its inputs in."""

from __future__ import annotations

from eptsim.base.errors import InputError, choice
from eptsim.crossbar.plan import Plan
from eptsim.crossbar.stages import RANGE_POLICIES, smallest_range


def shared_range(
    plan: Plan, range_policy: str, held: float | None, direction: str
) -> float | None:
    """The range that all vectors of a read share, or None where each has its own.

    ``held`` is the range that policy ``held`` uses; InputError where it uses none yet.
    """
    policy = choice(range_policy, RANGE_POLICIES, "range_policy")
    if policy == "per_vector" or plan.stage.exact:
        return None
    limit = plan.stage.input_limit
    if policy == "fixed":
        return 1.0 if limit is None else limit  # a card's limit is above the smallest range
    if held is None:
        raise no_held_range(plan.path, direction)
    held = max(held, smallest_range(plan.stored.dtype))
    return held if limit is None else min(held, limit)


def no_held_range(path: str, direction: str) -> InputError:
    """The error of a read at a held range that array ``path`` does not have yet."""
    return InputError(
        f"range_policy 'held': array {path!r} has no {direction} range yet. "
        "Call hold_range first (an EPController calibrates its chip by itself)."
    )
