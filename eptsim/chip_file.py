"""A whole chip in one HDF5 file: its model, its arrays, its clock and its ledger.

Arrays are written one by one, each in the group that ``eptsim.crossbar.archive`` makes of it.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import h5py
import numpy as np
import torch

from eptsim.base.errors import InputError
from eptsim.base.h5 import Reader, put_array, reading, writing
from eptsim.base.heap import give_back
from eptsim.base.ledger import DigitalKey, Ledger, ReadKey
from eptsim.cards import Card
from eptsim.cards.saved import changed_entries, put_card, read_card
from eptsim.crossbar.archive import write_array
from eptsim.crossbar.archive_read import DTYPES, ArrayReader
from eptsim.crossbar.crossbar import Crossbar
from eptsim.crossbar.crossbar_file import exchanged_card, loading_device, warn_dropped
from eptsim.digital.formats import FORMATS
from eptsim.olmo2.block import ARRAYS
from eptsim.olmo2.model import Olmo2
from eptsim.olmo2.shape import Olmo2Shape

FORMAT = "eptsim-chip-1"
"""Attribute ``format`` of a saved chip."""


@dataclass
class ChipState:
    """Everything that a ``Chip`` is.

    Attributes
    ----------
    passes : int
        Trips over the arrays so far: the last one's number in the random streams.
    phase : str
        Name of the phase that the last trip belonged to.
    arrays : dict of path to Crossbar
    node_force : list of torch.Tensor or None
        Constant force (C,) on each state node; None where it is to be drawn anew.
    """

    model: Olmo2
    card: Card
    seed: int
    periphery: str
    passes: int
    phase: str
    time_s: float
    ledger: Ledger
    arrays: dict[str, Crossbar]
    node_force: list[torch.Tensor] | None


def array_path(layer: int, array: str) -> str:
    """Name of one array on its chip, as random streams, ledger and results spell it."""
    return f"layers.{layer}.{array}"


def write_chip(
    path: str | os.PathLike[str], state: ChipState, *, overwrite: bool = False
) -> None:
    """Write a chip; see ``Chip.save``.

    Raises
    ------
    InputError
        For an array with a card of its own.
    CheckpointError
        For a file that cannot be written.
    """
    for name, array in state.arrays.items():
        if array.card != state.card:
            raise InputError(
                f"save: array {name!r}: found card {array.card.name!r}, allowed: a card like that "
                f"of its chip, {state.card.name!r}."
            )
    with writing(path, FORMAT, overwrite=overwrite) as file:
        put_card(file, state.card)
        file.attrs.update(
            seed=state.seed, periphery=state.periphery, passes=state.passes, phase=state.phase,
            time_s=state.time_s, ledger=_ledger_text(state.ledger),
        )  # fmt: skip
        _put_model(file.create_group("model"), state.model)
        force = torch.stack(state.node_force or []).cpu().numpy()
        about = "constant force on each state node, in units of the state"
        put_array(file, "node_force", force, units="1", axes=("layer", "channel"), about=about)
        arrays = file.create_group("arrays")
        for name, array in state.arrays.items():
            write_array(arrays.create_group(name), array.state())
            give_back()


def _put_model(group: h5py.Group, model: Olmo2) -> None:
    group.attrs["shape"] = json.dumps(asdict(model.shape))
    group.attrs["dtype"] = str(model.dtype).removeprefix("torch.")
    for name, value in model.named_parameters():
        axes = ("channel",) if value.dim() == 1 else ("out", "in")
        data = value.detach().cpu().contiguous().numpy()
        put_array(group, name, data, units="1", axes=axes, about="parameter of the model")


def _ledger_text(ledger: Ledger) -> str:
    """JSON of all counts: {kind: [[key parts ..., count], ...]}."""
    counters: dict[str, Counter[Any]] = {
        "reads": ledger.reads,
        "dac_conversions": ledger.dac_conversions,
        "adc_conversions": ledger.adc_conversions,
        "digital": ledger.digital,
    }
    return json.dumps(
        {kind: [[*key, count] for key, count in found.items()] for kind, found in counters.items()}
    )


def read_chip(
    path: str | os.PathLike[str],
    card: Card | None,
    device: torch.device | str,
    on_load: Callable[[int, int], None] | None = None,
) -> ChipState:
    """Read what :func:`write_chip` wrote; see ``Chip.load``."""
    with reading(path, FORMAT) as root:
        saved = read_card(root)
        used = exchanged_card(saved, card, root.file)
        where = loading_device(device)
        model = _read_model(root.sub("model"), where)
        arrays: dict[str, Crossbar] = {}
        dropped: dict[str, tuple[str, ...]] = {}
        group = root.sub("arrays")
        paths = [
            array_path(layer, array)
            for layer in range(model.shape.num_hidden_layers)
            for array in ARRAYS
        ]
        if set(group.names()) != set(paths):
            wrong = sorted(set(group.names()) ^ set(paths))
            raise root.refuse("arrays", f"{len(group.names())} arrays", f"{len(paths)}: those of "
                              f"the model's shape; not so: {', '.join(wrong[:3])}")  # fmt: skip
        for name in paths:
            state, dropped[name] = ArrayReader(group.sub(name), saved, used, where).read()
            arrays[name] = Crossbar.of_state(state)
            _check_array(group, name, arrays[name], model)
            give_back()
            if on_load is not None:
                on_load(len(arrays), len(paths))
        force = _node_force(root, model)
        if "node.offset" in changed_entries(saved, used):
            force = None
        state_of_chip = ChipState(
            model, used, root.integer("seed"), root.text("periphery", FORMATS),
            root.integer("passes"), root.text("phase"), root.number("time_s"), _ledger(root),
            arrays, force,
        )  # fmt: skip
    warn_dropped(root.file, saved, used, dropped)
    return state_of_chip


def _check_array(group: Reader, name: str, array: Crossbar, model: Olmo2) -> None:
    layer, kind = int(name.split(".")[1]), name.split(".")[2]
    shape = tuple(model.block_weight(layer, kind).shape)
    if array.shape != shape or array.dtype != model.dtype or array.path != name:
        raise group.refuse(
            name, f"{array.dtype} of shape {array.shape}, path {array.path!r}",
            f"{model.dtype} of shape {shape}, as the model has it, and the path {name!r}",
        )  # fmt: skip


def _read_model(reader: Reader, device: torch.device) -> Olmo2:
    name = reader.text("dtype", DTYPES)
    try:
        sizes = json.loads(reader.text("shape"))
        shape = Olmo2Shape(**sizes)
    except (ValueError, TypeError) as error:
        raise reader.refuse("shape", f"no shape ({error})", "JSON of an Olmo2Shape") from error
    model = Olmo2(shape, dtype=DTYPES[name])
    tensors = {
        key: torch.from_numpy(reader.array(key, size, name, "1"))
        for key, size in shape.parameter_shapes().items()
    }
    model.load_state_dict(tensors, assign=True)
    return model.to(device)


def _node_force(root: Reader, model: Olmo2) -> list[torch.Tensor] | None:
    shape = (model.shape.num_hidden_layers, model.shape.hidden_size)
    force = root.array("node_force", shape, str(model.dtype).removeprefix("torch."), "1")
    return [torch.from_numpy(np.array(row)).to(model.device) for row in force]


def _ledger(root: Reader) -> Ledger:
    text = root.text("ledger")
    try:
        found = json.loads(text)
        reads, dac, adc = (
            Counter({ReadKey(*key): int(count) for *key, count in found[kind]})
            for kind in ("reads", "dac_conversions", "adc_conversions")
        )
        digital = Counter({DigitalKey(*key): int(count) for *key, count in found["digital"]})
    except (ValueError, TypeError, KeyError) as error:
        raise root.refuse("ledger", f"no ledger ({error})", "JSON of its counts") from error
    return Ledger(reads, dac, adc, digital)
