"""One check of the suite, and what it measures."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from eptsim.testing.bench import Bench


@dataclass(frozen=True)
class Measured:
    """One number that has to stay within its limit.

    Attributes
    ----------
    what : str
        What was measured, in words.
    value, limit : float
        It is within where ``value <= limit``; NaN never is.
    """

    what: str
    value: float
    limit: float

    @property
    def within(self) -> bool:
        """Whether the limit is kept."""
        return self.value <= self.limit

    @property
    def excess(self) -> float:
        """How far the limit is used, to find the worst of several: 1 is all of it."""
        if self.value != self.value:
            return float("inf")
        if self.limit > 0:
            return self.value / self.limit
        return 0.0 if self.value <= self.limit else float("inf")

    def __str__(self) -> str:
        return f"{self.what}: {self.value:.3g}, allowed: at most {self.limit:.3g}"


@dataclass(frozen=True)
class Check:
    """One claim about a crossbar, and the function that measures whether it holds.

    Attributes
    ----------
    topic, name : str
        Together the check's ``id``.
    claim : str
        What is claimed, one sentence.
    truth : str
        What the crossbar is compared with; never eptsim's own arithmetic.
    run : callable
        Takes the :class:`Bench`, returns one or more :class:`Measured`. Raises ``Refused`` where
        the factory refuses the card.
    slow : bool
        Whether it takes more than a second or two.
    """

    topic: str
    name: str
    claim: str
    truth: str
    run: Callable[[Bench], Iterable[Measured]]
    slow: bool = False

    @property
    def id(self) -> str:
        """``topic/name``, what ``only=`` and ``pytest -k`` select by."""
        return f"{self.topic}/{self.name}"


class Directed(Protocol):
    """A check of one direction, ``"forward"`` or ``"transpose"``."""

    def __call__(self, bench: Bench, direction: str, /) -> Iterable[Measured]:
        """Measure on ``bench``."""


def both(
    topic: str, name: str, claim: str, truth: str, run: Directed, *, slow: bool = False
) -> tuple[Check, Check]:
    """The check ``run`` for each direction, as ``name-forward`` and ``name-transpose``."""

    def directed(direction: str) -> Check:
        def measure(bench: Bench) -> Iterable[Measured]:
            return run(bench, direction)

        return Check(topic, f"{name}-{direction}", claim, truth, measure, slow)

    return directed("forward"), directed("transpose")


def count(what: str, wrong: bool | int) -> Measured:
    """``wrong`` things (or whether there is one) where none is allowed."""
    return Measured(what, float(wrong), 0.0)
