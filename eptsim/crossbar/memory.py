"""The memory of one array: its conductances, and the weights that the reads multiply by.

The conductances are what the array is; weights and noise are derived from them. So they can be
saved, moved and derived again.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import torch

from eptsim.base.errors import InputError
from eptsim.base.streams import Stream
from eptsim.cards import Card
from eptsim.crossbar.cells import DEVICES_PER_SLICE, stuck_cells
from eptsim.crossbar.conduction import Wires
from eptsim.crossbar.derived import (
    Content,
    Derived,
    combine,
    content_of,
    derive,
    needs_content,
    perfect_content,
    uniform_noise,
    weights_of,
)
from eptsim.crossbar.mapping import program
from eptsim.crossbar.record import ProgrammingRecord, programming_record
from eptsim.crossbar.scaling import Scales, Tiling


@dataclass(frozen=True)
class Conductances:
    """Conductances of the cells of one array (S).

    Attributes
    ----------
    cells : (devices, slices, out, in), float64
        g+ and g- of each weight (mapping ``differential``), or its only device.
    reference : (slices, out_tiles, in), float64, or None
        The reference cells of each tile (mapping ``reference_column``).
    """

    cells: npt.NDArray[np.float64]
    reference: npt.NDArray[np.float64] | None = None


@dataclass
class Memory:
    """What one array holds.

    Attributes
    ----------
    scales, tiling, rescale
        Digital side of the mapping; see ``Programmed``.
    content : Content or None
        Conductances; None where perfect cells are told by the weights alone.
    stored : (slices, out, in) or None
        Weights that reads with flaws multiply by, in units of their scales.
    combined : (1, out, in) or None
        The digitally combined matrix, which exact reads multiply by.
    derived : Derived
        Noise of the cells (its ``weights`` are in ``stored``).
    record : ProgrammingRecord
        What programming came to.
    stale : bool
        Whether conductances moved since the wires were solved exactly.
    """

    card: Card
    seed: int
    path: str
    exact: Set[bool]
    dtype: torch.dtype
    device: torch.device
    scales: Scales
    tiling: Tiling
    rescale: float
    content: Content | None
    record: ProgrammingRecord
    derived: Derived
    stored: torch.Tensor | None = None
    combined: torch.Tensor | None = None
    stale: bool = False

    @classmethod
    def program(
        cls, weight: torch.Tensor, card: Card, seed: int, path: str, exact: Set[bool]
    ) -> Memory:
        """Program ``weight`` (out, in); ``exact`` says whether the directions' reads are."""
        matrix = weight.cpu().double().numpy()
        tiling = Tiling.of((matrix.shape[0], matrix.shape[1]), card.array)
        done = program(matrix, card, Stream.of(seed, path, "program"), tiling)
        content = content_of(done, weight, card)
        target = torch.from_numpy(done.target)
        if content is None and needs_content(card):
            content = perfect_content(target.to(weight.device, weight.dtype), card, tiling)
        derived = Derived(target, uniform_noise(card), None, None)
        if content is not None:
            derived = derive(
                content, card, tiling, _flicker(seed, path), exact=_exactly(card),
                rescale=done.rescale,
            )
        read_out = combine(derived.weights, done.scales, tiling, done.rescale)
        memory = cls(
            card, seed, path, exact, weight.dtype, weight.device, done.scales, tiling,
            done.rescale, content, programming_record(done, matrix, read_out.numpy()), derived,
        )
        memory._install(derived, read_out, stale=False)
        return memory

    def _install(self, derived: Derived, read_out: torch.Tensor, *, stale: bool) -> None:
        """Let the reads use ``derived``, which stands for the matrix ``read_out`` (out, in).

        Nothing has changed where it is refused.
        """
        largest = float(read_out.abs().max())
        if not largest <= torch.finfo(self.dtype).max:
            raise InputError(
                f"weight: found a largest magnitude of {self.scales.scale:g}, stored as "
                f"{largest:g}, allowed: what {self.dtype} holds."
            )
        self.stale = stale
        self.stored = self.combined = None
        if False in self.exact or self.stale:  # stale wires cannot be derived again
            self.stored = derived.weights.to(self.device, self.dtype)
        if True in self.exact:
            self.combined = read_out[None].to(self.device, self.dtype)
        self._keep_noise(derived)

    def _keep_noise(self, derived: Derived) -> None:
        nothing = torch.empty(0, dtype=torch.float64)  # no view, which would keep them all
        self.derived = Derived(
            nothing, derived.noise, derived.reference_noise, derived.flicker
        )

    def weight(self) -> torch.Tensor:
        """The matrix (out, in) that the array stands for; a copy."""
        if self.combined is not None:
            return self.combined[0].clone()
        return self._combine(self._weights()).to(self.device, self.dtype)

    def conductances(self) -> Conductances:
        """The conductances of all cells; a copy."""
        content = self._content()
        unit = self.card.cell.g_max_s
        reference = content.reference
        return Conductances(
            content.cells.double().cpu().numpy() * unit,
            None if reference is None else reference.double().cpu().numpy() * unit,
        )

    def move(self, moved: Conductances) -> None:
        """Let the cells hold ``moved``; exactly solved wires follow by a difference of ladders."""
        if not isinstance(moved, Conductances):
            raise InputError(
                f"array {self.path!r}: conductances: found {type(moved).__name__}, allowed: "
                "Conductances, as Crossbar.conductances() returns them."
            )
        old = self._content()
        unit = self.card.cell.g_max_s
        where, reference = f"array {self.path!r}: conductances", None
        cells = self._checked(moved.cells, old.cells, f"{where}: cells") / unit
        if old.reference is not None or moved.reference is not None:
            found = self._checked(moved.reference, old.reference, f"{where}: reference")
            reference = (found / unit).to(self.device, self.dtype)
        new = Content(cells.to(self.device, self.dtype), reference)
        derived, follows = self._derive(new, exact=False), self._wired and _exactly(self.card)
        if follows:
            change = derived.weights - self._weights_of(old, exact=False)
            derived = replace(derived, weights=self._weights() + change)
        self._install(derived, self._combine(derived.weights), stale=self.stale or follows)
        self.content = new

    def refresh(self) -> None:
        """Derive everything anew, wires solved exactly."""
        derived = self._derive(self._content(), exact=True)
        self._install(derived, self._combine(derived.weights), stale=False)

    def derive_noise(self) -> None:
        """Work out the noise of the cells for the card, the weights left as they are held."""
        cell = self.card.cell
        if self.content is None and needs_content(self.card):
            self.content = self._content()
        derived = Derived(torch.empty(0), uniform_noise(self.card), None, None)
        if self.content is not None and (cell.read_noise.acts or cell.flicker.sigma > 0):
            derived = self._derive(self.content, exact=not self.stale)
        self._keep_noise(derived)

    def serve(self, exact: Set[bool]) -> None:
        """Hold what the reads of directions need that are ``exact`` or not, and no more."""
        self.exact = exact
        lacks_stored = False in exact and self.stored is None
        if lacks_stored or (True in exact and self.combined is None):
            if self.content is None and lacks_stored:
                self.stored = self._target()
            elif self.content is None or (self.stored is not None and self._wired):
                self.combined = self._combine(self._weights())[None].to(self.device, self.dtype)
            else:
                self.refresh()
        self.stored = self.stored if False in exact or self.stale else None
        self.combined = self.combined if True in exact else None

    def stuck_cells(self) -> npt.NDArray[np.bool_] | None:
        """Which cells (devices, slices, out, in) cannot be programmed; None where all can."""
        stuck = self.card.cell.stuck
        if stuck.low == stuck.high == stuck.random == 0:
            return None
        stream = Stream.of(self.seed, self.path, "program")
        devices, slices, out, inner = self._content().cells.shape
        mask = np.empty((devices, slices, out, inner), np.bool_)
        for device in range(devices):
            for k in range(slices):
                plane = device + DEVICES_PER_SLICE * k
                mask[device, k] = stuck_cells(self.card, stream, out, inner, plane)
        return mask

    def wires_error(self, tiles: int) -> float:
        """Relative error of the weights of ``tiles`` tiles against exactly solved wires."""
        if not self._wired:
            return 0.0
        content, held = self._content(), self._weights()
        pairs = [(o, i) for o in range(len(self.tiling.out)) for i in range(len(self.tiling.inner))]
        chosen = np.unique(np.linspace(0, len(pairs) - 1, min(tiles, len(pairs))).round())
        wrong = size = 0.0
        for number in chosen.astype(int):
            tile, column = pairs[number]
            out, inner = self.tiling.out[tile], self.tiling.inner[column]
            reference = content.reference
            part = Content(
                content.cells[..., out, inner],
                None if reference is None else reference[:, tile : tile + 1, inner],
            )
            alone = Tiling(
                [slice(0, out.stop - out.start)], [slice(0, inner.stop - inner.start)]
            )
            want = weights_of(part, self.card, alone, exact=True, rescale=self.rescale)
            wrong += float((held[:, out, inner] - want).square().sum())
            size += float(want.square().sum())
        return (wrong / size) ** 0.5 if size > 0 else float(wrong > 0)

    def _weights(self) -> torch.Tensor:
        """Weights (slices, out, in) as held, float64."""
        if self.stored is not None:
            return self.stored.double().cpu()
        return self._weights_of(self._content(), exact=_exactly(self.card))

    def _weights_of(self, content: Content, *, exact: bool) -> torch.Tensor:
        return weights_of(content, self.card, self.tiling, exact=exact, rescale=self.rescale)

    def _combine(self, weights: torch.Tensor) -> torch.Tensor:
        return combine(weights, self.scales, self.tiling, self.rescale)

    def _content(self) -> Content:
        """The conductances, those of perfect cells worked out from the weights."""
        if self.content is not None:
            return self.content
        if self.stored is not None:
            return perfect_content(self.stored, self.card, self.tiling)
        return perfect_content(self._target(), self.card, self.tiling)

    def _target(self) -> torch.Tensor:
        """What perfect cells hold (1, out, in), worked out from the combined matrix."""
        assert self.combined is not None  # perfect cells have one slice
        relative = torch.from_numpy(self.scales.relative(self.tiling)) * self.scales.scale
        target = (self.combined.double().cpu() / relative).clamp(-1.0, 1.0)
        return target.to(self.device, self.dtype)

    @property
    def _wired(self) -> bool:
        return Wires.of(self.card.array) is not None

    def _derive(self, content: Content, *, exact: bool) -> Derived:
        stream = _flicker(self.seed, self.path)
        exact = exact and _exactly(self.card)
        return derive(
            content, self.card, self.tiling, stream, exact=exact, rescale=self.rescale
        )

    @staticmethod
    def _checked(found: object, like: torch.Tensor | None, where: str) -> torch.Tensor:
        """``found`` (S) as a tensor, if it looks ``like`` what is held and is not negative."""
        if like is None or not isinstance(found, np.ndarray) or found.dtype.kind != "f":
            allowed = "None" if like is None else "a NumPy array of float"
            raise InputError(f"{where}: found {type(found).__name__}, allowed: {allowed}.")
        if found.shape != tuple(like.shape):
            raise InputError(f"{where}: found shape {found.shape}, allowed: {tuple(like.shape)}.")
        if not (np.isfinite(found).all() and (found >= 0).all()):
            raise InputError(f"{where}: found a negative or non-finite value, allowed: 0 or more.")
        if float(found.max()) > _MOST_S:
            raise InputError(
                f"{where}: found {float(found.max()):g} S, allowed: at most {_MOST_S:g} S."
            )
        return torch.from_numpy(np.ascontiguousarray(found, dtype=np.float64))


#: Conductance that no cell has: cards go to 1 S.
_MOST_S = 1e3


def _exactly(card: Card) -> bool:
    return card.array.wire_model == "exact"


def _flicker(seed: int, path: str) -> Stream:
    return Stream.of(seed, path, "flicker")
