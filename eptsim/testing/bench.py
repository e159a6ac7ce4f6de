"""What a check stands on: crossbars of the factory under test, cards and test vectors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch

from eptsim.base.errors import CardError
from eptsim.cards import Card, load_card
from eptsim.crossbar.interface import CrossbarLike
from eptsim.crossbar.stages import Position

Array = npt.NDArray[np.float64]
DIRECTIONS = ("forward", "transpose")
POLICIES = ("per_vector", "fixed", "held")
MAPPINGS = ("differential", "reference_column", "offset")


class Refused(Exception):  # noqa: N818  # an outcome of a check, not an error
    """The factory refused a card, which it may."""


class Factory(Protocol):
    """Makes the crossbar under test.

    Returns an object with ``read`` and ``read_transpose`` as in
    :class:`eptsim.crossbar.interface.CrossbarLike`, and the other methods of that interface where a
    check asks for them. Raises CardError, naming the key, for a card entry that it cannot honour.
    """

    def __call__(self, weight: torch.Tensor, card: Card, seed: int, /) -> CrossbarLike:
        """The crossbar of ``weight`` (out, in) with ``card``'s devices and this chip seed."""


class Bench:
    """The factory under test, and everything that a check needs to ask it.

    Parameters
    ----------
    factory : Factory
    dtype : torch.dtype
        Of weights and vectors.
    device : str
        Where they live.
    """

    def __init__(
        self, factory: Factory, dtype: torch.dtype = torch.float32, device: str = "cpu"
    ) -> None:
        self.factory = factory
        self.dtype = dtype
        self.device = torch.device(device)
        self._ideal = load_card("ideal")

    @property
    def eps(self) -> float:
        """Rounding of one operation in the dtype."""
        return float(torch.finfo(self.dtype).eps)

    def card(self, changes: Mapping[str, object]) -> Card:
        """The ideal card with ``changes``."""
        return self._ideal.override(changes)

    def build(
        self, weight: torch.Tensor, changes: Mapping[str, object] | None = None, seed: int = 0
    ) -> CrossbarLike:
        """The crossbar of ``weight`` with the ideal card's ``changes``.

        Raises
        ------
        Refused
            Where the factory raises CardError for a card with changes.
        CardError
            Where it does for the ideal card, which every crossbar has to take.
        """
        card = self.card(changes or {})
        if not changes:
            return self.factory(weight, card, seed)
        try:
            return self.factory(weight, card, seed)
        except CardError as error:
            raise Refused(str(error)) from error

    def tensor(self, values: npt.ArrayLike) -> torch.Tensor:
        """``values`` with the dtype and device under test."""
        return torch.as_tensor(np.asarray(values)).to(self.device, self.dtype)

    def normal(self, *shape: int, seed: int = 0) -> torch.Tensor:
        """Standard normals of a generator of their own, the same on every call."""
        return self.tensor(np.random.default_rng([17, seed, *shape]).standard_normal(shape))

    def weight(self, out: int, inner: int, seed: int = 0) -> torch.Tensor:
        """A matrix (out, in) of normals, its largest magnitude exactly 1."""
        w = numbers(self.normal(out, inner, seed=seed))
        return self.tensor(w / np.abs(w).max())

    def codes(self, rows: int, lines: int, seed: int = 0) -> torch.Tensor:
        """Uniform numbers in [-1, 1] (rows, lines)."""
        return self.tensor(np.random.default_rng([18, seed, rows]).uniform(-1, 1, (rows, lines)))


def numbers(x: torch.Tensor) -> Array:
    """A float64 NumPy copy of ``x``."""
    return np.array(x.detach().cpu().double().numpy())


def read(
    array: CrossbarLike,
    direction: str,
    x: torch.Tensor,
    *,
    policy: str | None = None,
    position: Position | None = None,
    reference: torch.Tensor | None = None,
) -> torch.Tensor:
    """Read ``x`` in one direction."""
    method = array.read if direction == "forward" else array.read_transpose
    return method(x, range_policy=policy, position=position, reference=reference)


def drives(shape: tuple[int, ...] | torch.Size, direction: str) -> int:
    """Number of driven lines of a weight of ``shape`` (out, in)."""
    return int(shape[1] if direction == "forward" else shape[0])


def product(w: Array, direction: str, x: Array) -> Array:
    """What an exact read of the matrix ``w`` (out, in) makes of ``x`` (rows, drives)."""
    return x @ w.T if direction == "forward" else x @ w


def matrix(bench: Bench, array: CrossbarLike, direction: str, time_s: float = 0.0) -> Array:
    """The matrix (out, in) that unit vectors show, read at the range 1 and one time."""
    inner = drives(array.shape, direction)
    unit = bench.tensor(np.eye(inner))
    position = Position(0, 0, time_s)
    found = numbers(read(array, direction, unit, policy="fixed", position=position))
    return found.T if direction == "forward" else found


def rounding(bench: Bench, w: Array, direction: str, x: Array) -> float:
    """Largest error that the rounding of a sum of products may make of ``x`` through ``w``."""
    terms = x.shape[-1] + 16
    return float(terms * bench.eps * product(np.abs(w), direction, np.abs(x)).max())
