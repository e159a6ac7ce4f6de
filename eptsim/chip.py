"""Where each matmul lives: a model whose seven weight matmuls per block are on crossbars."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass, field

import torch

from eptsim.base.errors import InputError, choice
from eptsim.base.heap import give_back
from eptsim.base.ledger import Ledger, ReadKey
from eptsim.base.streams import Stream, check_seed
from eptsim.cards import Card
from eptsim.chip_file import ChipState, array_path, read_chip, write_chip
from eptsim.crossbar.aihwkit_config import node_card
from eptsim.crossbar.calibration import LineCalibration
from eptsim.crossbar.checks import check_backend
from eptsim.crossbar.crossbar import Crossbar
from eptsim.crossbar.interface import CrossbarLike
from eptsim.crossbar.stages import DIRECTIONS, RANGE_POLICIES, Position
from eptsim.digital.formats import FORMATS, quantise
from eptsim.olmo2.block import ARRAYS, block_forward
from eptsim.olmo2.model import Olmo2
from eptsim.olmo2.operations import block_forward_operations, readout_operations


@dataclass(frozen=True)
class Pass:
    """One trip over the arrays: every array is read at most once in each direction.

    Attributes
    ----------
    number : int
        Read number of all its reads in the random streams.
    time_s : float
        When it happens, on the chip's clock.
    phase : str
        Name that the ledger counts them under.
    range_policy : str
        Policy of all its reads.
    line_reference : dict
        Array path -> zero reference (segments, in) that transposed reads subtract; may be empty.
    observed : dict or None
        Where given, (path, direction) -> largest input magnitude seen, for calibration.
    """

    number: int
    time_s: float
    phase: str
    range_policy: str
    line_reference: dict[str, torch.Tensor] = field(default_factory=dict)
    observed: dict[tuple[str, str], float] | None = None


class Chip:
    """A simulated chip that holds one model.

    Parameters
    ----------
    model : Olmo2
        Its weights are programmed at construction; later changes to the model do not reach the
        arrays. Embedding, norms and readout are digital and stay the model's own. The chip
        computes in the model's dtype, on its device.
    card : Card or None
        The device technology of every array. With backend ``aihwkit`` only its ``node`` entries
        act, and it may be left out.
    backend : str
        ``eptsim``, or ``aihwkit``: IBM's tiles, as ``rpu_config`` describes them.
    rpu_config : aihwkit configuration or None
        Any configuration or preset, for the backend ``aihwkit``.
    seed : int
        Chip seed: same model, card and seed give the same chip and the same noise.
    periphery : str
        Number format of the digital values between reads: float32 (exact), bfloat16, int2..int16.
    on_program : callable or None
        Called with (arrays done, arrays in all) while the chip is programmed.

    Attributes
    ----------
    arrays : dict
        Path ("layers.0.qkv") -> Crossbar.
    time_s : float
        The chip's clock (card section ``clock``): it advances by ``pass_s`` with every pass, and
        by ``phase_interval_s`` where a phase begins.
    ledger : Ledger
        Reads, conversions and digital operations so far.
    node_force : list of torch.Tensor
        Constant force (C,) on each state node, l = 1 .. L (design, section 3): standard deviation
        ``node.offset`` times the node's nominal root mean square, that of the embedding and of the
        norm gains below it added in quadrature.

    Raises
    ------
    InputError, CardError
        For a bad seed or format, non-finite weights, or a card entry that is not simulated.
    """

    def __init__(
        self,
        model: Olmo2,
        card: Card | None,
        seed: int = 0,
        *,
        backend: str = "eptsim",
        rpu_config: object = None,
        periphery: str = "float32",
        on_program: Callable[[int, int], None] | None = None,
    ) -> None:
        if not isinstance(model, Olmo2):
            raise InputError(f"Chip: model: found {type(model).__name__}, allowed: eptsim.Olmo2.")
        check_backend(backend, rpu_config, "Chip")
        self.backend = backend
        if backend == "aihwkit":
            card = node_card(card)
        if not isinstance(card, Card):
            raise InputError(
                f"Chip: card: found {type(card).__name__}, allowed: a Card (eptsim.load_card)."
            )
        self.model = model
        self.card = card
        self.seed = check_seed(seed)
        self.periphery = choice(periphery, FORMATS, "Chip: periphery")
        self.ledger = Ledger()
        self._passes = 0
        self._phase = ""
        self.time_s = 0.0
        self.arrays: dict[str, CrossbarLike] = {}
        layers = model.shape.num_hidden_layers
        for layer in range(layers):
            for array in ARRAYS:
                path = array_path(layer, array)
                with torch.no_grad():
                    weight = model.block_weight(layer, array)
                self.arrays[path] = Crossbar(
                    weight.detach(), card if backend == "eptsim" else None, self.seed, path=path,
                    backend=backend, rpu_config=rpu_config,
                )
                if on_program is not None:
                    on_program(len(self.arrays), layers * len(ARRAYS))
        give_back()
        self.node_force = self._draw_node_force()

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write all of the chip, model included, to one HDF5 file (``docs/saving.md``).

        The file appears whole or not at all. Raises CheckpointError where it cannot be written, or
        is there already and ``overwrite`` is False; InputError where an array has another card.
        """
        arrays = {path: one for path, one in self.arrays.items() if isinstance(one, Crossbar)}
        if len(arrays) < len(self.arrays):
            raise InputError(
                f"save: found a chip of backend {self.backend!r}, allowed: 'eptsim'; what "
                "aihwkit's tiles hold is theirs to save."
            )
        state = ChipState(
            self.model, self.card, self.seed, self.periphery, self._passes, self._phase,
            self.time_s, self.ledger, arrays, self.node_force,
        )
        write_chip(path, state, overwrite=overwrite)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        card: Card | None = None,
        *,
        device: torch.device | str = "cpu",
        on_load: Callable[[int, int], None] | None = None,
    ) -> Chip:
        """Open a saved chip, which goes on to the bit where it stopped.

        Parameters
        ----------
        card : Card or None
            Replaces the saved card: its converters, line flaws, noise, node forces and clock hold,
            and calibrations of other converters are dropped with a warning.
        device : torch.device or str
            Where the chip computes.
        on_load : callable or None
            Called with (arrays done, arrays in all).

        Raises
        ------
        CheckpointError
            For a file that is missing, cut short, changed or foreign.
        CardError
            For a card that differs in what made the cells; it names every entry.
        """
        state = read_chip(path, card, device, on_load)
        chip = cls.__new__(cls)
        chip.backend = "eptsim"
        chip.model, chip.card, chip.seed = state.model, state.card, state.seed
        chip.periphery, chip.ledger, chip.arrays = state.periphery, state.ledger, {**state.arrays}
        chip._passes, chip._phase, chip.time_s = state.passes, state.phase, state.time_s
        chip.node_force = state.node_force or chip._draw_node_force()
        return chip

    def _draw_node_force(self) -> list[torch.Tensor]:
        sigma = self.card.node.offset
        model = self.model
        with torch.no_grad():
            square = model.get_parameter("model.embed_tokens.weight").double().square().mean()
            forces = []
            for layer, gains in enumerate(model.blocks(), start=1):
                square = square + gains.attn.double().square().mean()
                square = square + gains.ff.double().square().mean()
                normal = Stream.of(self.seed, "node", f"layers.{layer}").normal(
                    1, model.shape.hidden_size
                )[0]
                force = sigma * float(square.sqrt()) * torch.from_numpy(normal).double()
                forces.append(force.to(device=model.device, dtype=model.dtype))
        return forces

    @property
    def layers(self) -> int:
        """Number of blocks, L."""
        return self.model.shape.num_hidden_layers

    @property
    def quiet_transpose(self) -> bool:
        """Whether a transposed read without drive is exactly zero on every array."""
        if self.backend == "aihwkit":  # its lines have no offset
            return not any(array.stage("transpose").noisy for array in self.arrays.values())
        entry = self.card.transpose
        return entry.offset == 0 and entry.line_noise == 0 and entry.offset_drift == 0

    @property
    def noisy(self) -> bool:
        """Whether two reads of the same input differ on any array."""
        return any(
            array.stage(direction).noisy
            for array in self.arrays.values()
            for direction in ("forward", "transpose")
        )

    def new_pass(
        self,
        phase: str,
        range_policy: str,
        line_reference: dict[str, torch.Tensor] | None = None,
        observed: dict[tuple[str, str], float] | None = None,
    ) -> Pass:
        """Start a trip over the arrays, with a read number that no earlier one had."""
        policy = choice(range_policy, RANGE_POLICIES, "range_policy")
        self._passes += 1
        self.wait(self.card.clock.pass_s)
        if self._phase and phase != self._phase:
            self.wait(self.card.clock.phase_interval_s)
        self._phase = phase
        return Pass(self._passes, self.time_s, phase, policy, line_reference or {}, observed)

    def wait(self, seconds: float) -> None:
        """Let the chip's clock advance by ``seconds`` >= 0."""
        if isinstance(seconds, bool) or not isinstance(seconds, int | float):
            raise InputError(f"wait: found {seconds!r}, allowed: seconds, 0 or more.")
        if not 0 <= seconds < math.inf or math.isinf(self.time_s + seconds):
            raise InputError(f"wait: found {seconds!r}, allowed: seconds, 0 or more.")
        self.time_s += seconds

    def read(self, layer: int, array: str, x: torch.Tensor, trip: Pass) -> torch.Tensor:
        """Forward read of one array: x (..., in) -> (..., out)."""
        return self._read("forward", layer, array, x, trip)

    def read_transpose(self, layer: int, array: str, d: torch.Tensor, trip: Pass) -> torch.Tensor:
        """Transposed read of one array: d (..., out) -> (..., in)."""
        return self._read("transpose", layer, array, d, trip)

    def _read(
        self, direction: str, layer: int, array: str, x: torch.Tensor, trip: Pass
    ) -> torch.Tensor:
        path = array_path(layer, array)
        crossbar = self.arrays[path]
        x = quantise(x, self.periphery)
        if trip.observed is not None:
            top = crossbar.peak(direction, x)
            key = (path, direction)
            trip.observed[key] = max(top, trip.observed.get(key, 0.0))
        vectors = x.numel() // x.shape[-1]
        position = Position(trip.number, 0, trip.time_s)
        if direction == "forward":
            y = crossbar.read(x, range_policy=trip.range_policy, position=position)
        else:
            y = crossbar.read_transpose(
                x,
                range_policy=trip.range_policy,
                position=position,
                reference=trip.line_reference.get(path),
            )
        self.count(path, direction, trip.phase, vectors)
        return quantise(y, self.periphery)

    def count(self, path: str, direction: str, phase: str, vectors: int) -> None:
        """Enter ``vectors`` reads of one array into the ledger."""
        crossbar = self.arrays[path]
        out, inner = crossbar.shape
        drives, lines = (inner, out) if direction == "forward" else (out, inner)
        # every tile along a line converts on its own, in and out
        across = "transpose" if direction == "forward" else "forward"
        self.ledger.count_read(
            ReadKey(path, direction, phase),
            vectors,
            drives * crossbar.segments(across),
            lines * crossbar.segments(direction),
        )

    def line_references(self, vectors: int, phase: str) -> dict[str, torch.Tensor]:
        """Zero reference of every transposed line, averaged over ``vectors`` reads without drive.

        The free phase's contribution to reference placement ``line`` (design, section 3).
        """
        trip = self.new_pass(phase, "fixed")
        references = {}
        for path, crossbar in self.arrays.items():
            self.count(path, "transpose", phase, vectors)
            if not self.quiet_transpose:
                references[path] = crossbar.zero_reference(
                    "transpose", vectors, Position(trip.number, 0, trip.time_s)
                )
        return references

    def calibrate(self, reads: int) -> dict[tuple[str, str], LineCalibration]:
        """Measure and correct offset and gain of every line of every array, in both directions.

        See ``Crossbar.calibrate``; the keys are (array path, direction).
        """
        found = {}
        for path, crossbar in self.arrays.items():
            if not isinstance(crossbar, Crossbar):
                raise InputError(
                    f"calibrate: array {path!r}: found backend {self.backend!r}, allowed: "
                    "'eptsim'; aihwkit's lines have no offset and no gain error to correct."
                )
            crossbar.time_s = self.time_s
            for direction in DIRECTIONS:
                found[path, direction] = crossbar.calibrate(direction, reads)
        return found

    def hold_ranges(self, observed: dict[tuple[str, str], float], margin: float = 1.0) -> None:
        """Set the ``held`` range of each array and direction to ``margin`` times what was seen.

        An array that saw only zeros is held at range 1.
        """
        for (path, direction), top in observed.items():
            self.arrays[path].hold_range(direction, margin * top if top > 0 else 1.0)

    def logits(self, tokens: torch.Tensor, range_policy: str = "per_vector") -> torch.Tensor:
        """Inference on the chip: token ids (B, T) -> logits (B, T, V)."""
        model = self.model
        with torch.no_grad():
            z = model.embed(tokens)
            rotary = model.rotary(tokens.shape[1], z.device)
            trip = self.new_pass("inference", range_policy)
            for layer in range(self.layers):

                def matmul(array: str, x: torch.Tensor, layer: int = layer) -> torch.Tensor:
                    return self.read(layer, array, x, trip)

                z = block_forward(
                    z, model.block_gains(layer), rotary, model.shape.num_attention_heads,
                    model.shape.rms_norm_eps, matmul,
                )
                operations = block_forward_operations(model.shape, *tokens.shape)
                self.ledger.count_digital(operations, "inference")
            self.ledger.count_digital(readout_operations(model.shape, *tokens.shape), "inference")
            return model.readout(z)
