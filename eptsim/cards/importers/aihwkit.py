"""A card out of a configuration or preset of IBM's aihwkit.

In aihwkit a weight of 1 and an input of 1 are full scale, with ``out_bound`` and the noise in those
units; ``mapping.weight_scaling_omega`` is the value that the largest weight is scaled to. A card
scales it to 1, so outputs are divided by omega.
"""

from __future__ import annotations

import dataclasses
import importlib
import math
from collections.abc import Iterator
from enum import Enum
from typing import Any

from eptsim.base.errors import CardError, nearest
from eptsim.base.versions import AIHWKIT_TORCH
from eptsim.cards.array_entries import DEFAULT_FULL_SCALE
from eptsim.cards.check import show
from eptsim.cards.importers.aihwkit_devices import noise_model, pulsed_device
from eptsim.cards.importers.draft import Draft, Imported

PRESETS = "aihwkit.simulator.presets"
_DIRECTIONS = {"forward": "forward", "backward": "transpose"}

#: Settings of how aihwkit computes and trains, none of them a property of a chip.
_NOT_A_DEVICE = (
    "tile_class", "tile_array_class", "simulator_tile_class", "runtime",
    "mapping.digital_bias", "mapping.learn_out_scaling", "mapping.out_scaling_columnwise",
    "mapping.weight_scaling_lr_compensation",
)


def import_aihwkit(config: object, name: str | None = None) -> Imported:
    """Card out of an aihwkit configuration.

    Parameters
    ----------
    config
        A configuration or preset (an object), or its name: that of a preset, such as
        ``ReRamESPreset``, or the dotted name of a configuration or of a function that makes one.
    name
        Name of the card; the configuration's class in lower case where None.

    Raises
    ------
    CardError
        For a name that aihwkit does not know, what is no configuration, or an aihwkit that is not
        installed.
    """
    made: Any = _resolve(config) if isinstance(config, str) else config
    if not dataclasses.is_dataclass(made) or isinstance(made, type):
        raise CardError(f"aihwkit: found {show(made)}, allowed: a configuration or preset.")
    label = type(made).__name__
    settings = dict(_flat(made, ""))
    draft = Draft(settings, "aihwkit", label)
    draft.done_below(*_NOT_A_DEVICE)
    draft.done(*(key for key in settings if key.endswith("construction_seed")))
    omega = _mapping(draft)
    mapping = pulsed_device(draft) if "noise_model" not in settings else "differential"
    if "noise_model" in settings:
        noise_model(draft, made)
    _training(draft)
    for theirs, ours in _DIRECTIONS.items():
        if theirs in {field.name for field in dataclasses.fields(made)}:
            _direction(draft, theirs, ours, omega)
    _cell_noise(draft, omega, mapping)
    draft.leave_rest(_idle, _reason)
    return draft.finish(
        name or label.lower(), f"aihwkit: {label}", f"Imported from aihwkit's {label}.",
        _technology(label),
    )


def _resolve(name: str) -> object:
    module, _, attribute = name.rpartition(".")
    try:
        home = importlib.import_module(module or PRESETS)
    except ImportError as error:
        known, release = next(iter(AIHWKIT_TORCH.items()))
        raise CardError(
            f"aihwkit:{name}: cannot import {module or PRESETS}: {error}. Allowed: a preset of "
            f"aihwkit {known} (which needs torch {release}), or a dotted name."
        ) from error
    found = vars(home).get(attribute)
    if found is None or not callable(found):
        if dataclasses.is_dataclass(found):
            return found
        names = [key for key, value in vars(home).items() if key.endswith("Preset")]
        raise CardError(
            f"aihwkit:{name}: found no such configuration in {home.__name__}, allowed: "
            f"{', '.join(sorted(names)) or 'a configuration'}.{nearest(attribute, names)}"
        )
    try:
        return found()
    except TypeError as error:
        raise CardError(
            f"aihwkit:{name}: cannot be made without arguments: {error}. Allowed: a configuration."
        ) from error


def _flat(node: Any, prefix: str) -> Iterator[tuple[str, object]]:
    """Every setting by its dotted name; noise models by the attributes that they hold."""
    if dataclasses.is_dataclass(node):
        pairs = [(field.name, getattr(node, field.name)) for field in dataclasses.fields(node)]
    else:
        pairs = list(vars(node).items())
    for key, value in pairs:
        name = f"{prefix}{key}"
        if isinstance(value, Enum):
            yield name, value.name
        elif dataclasses.is_dataclass(value) and not isinstance(value, type):
            if key == "device":
                yield name, type(value).__name__
            yield from _flat(value, f"{name}.")
        elif key == "unit_cell_devices":
            for index, device in enumerate(value):
                yield f"{name}[{index}]", type(device).__name__
                yield from _flat(device, f"{name}[{index}].")
        elif key in ("noise_model", "drift_compensation", "g_converter") and value is not None:
            yield name, type(value).__name__
            yield from _flat(value, f"{name}.")
        else:
            yield name, value


def _mapping(draft: Draft) -> float:
    """Tiles and weight scaling; returns the value that the largest weight is scaled to."""
    for key, name in (("array.rows", "max_input_size"), ("array.columns", "max_output_size")):
        if (size := int(draft.number(f"mapping.{name}"))) > 0:
            draft.carry(key, size, f"mapping.{name}")
        draft.done(f"mapping.{name}")
    omega = draft.number("mapping.weight_scaling_omega")
    if omega > 0:
        column = bool(draft.get("mapping.weight_scaling_columnwise"))
        draft.carry(
            "array.scaling", "column" if column else "tile", "mapping.weight_scaling_omega",
            "mapping.weight_scaling_columnwise",
        )
        return omega
    draft.leave(
        "mapping.weight_scaling_omega",
        "weights are stored as they are; a card scales the largest of them to full conductance, "
        "so they stand higher above the noise",
    )
    draft.done("mapping.weight_scaling_columnwise")
    return 1.0


def _training(draft: Draft) -> None:
    """Settings of training that do nothing to a chip, and those of a device without pulses."""
    if draft.get("device") in ("IdealDevice", "FloatingPointDevice"):
        draft.done("device", "device.reset_std")
    for drift in [name for name in draft.names() if name.endswith(".drift.nu")]:
        section = drift.removesuffix(".nu")
        if all(draft.number(f"{section}.{key}") == 0 for key in ("nu", "nu_std", "w_noise_std")):
            draft.done_below(section)
    if draft.get("pre_post.input_range.enable"):
        draft.leave("pre_post.input_range.enable", "a range learned from data: range policy held")
    draft.done_below("pre_post.input_range")
    for what in ("modifier", "clip", "remap"):
        if draft.get(f"{what}.type") not in (None, "NONE", "COPY"):
            draft.leave(f"{what}.type", "acts on the weights while they are trained in software")
        draft.done_below(what)
    if draft.get("update.pulse_type") == "NONE":
        draft.done_below("update")


def _perfect(draft: Draft, at: str) -> bool:
    return bool(draft.get(f"{at}.is_perfect")) or draft.get(f"{at}.mv_type") == "IDEAL"


def _direction(draft: Draft, at: str, direction: str, omega: float) -> None:
    """Converters, range and output noise of one direction."""
    if _perfect(draft, at):
        draft.done_below(at)
        return
    for key, name in (("dac_bits", "inp_res"), ("adc_bits", "out_res")):
        _resolution(draft, f"{direction}.{key}", f"{at}.{name}")
    bound = draft.number(f"{at}.out_bound")
    if 0 < bound < math.inf:
        why = "" if omega == 1 else f"out_bound / {omega:g}, the largest weight"
        draft.carry(f"{direction}.output_range", bound / omega, f"{at}.out_bound", why=why)
    draft.done(f"{at}.out_bound")
    full = bound if 0 < bound < math.inf else DEFAULT_FULL_SCALE * omega
    noise = draft.number(f"{at}.out_noise")
    if noise > 0:
        draft.carry(
            f"{direction}.line_noise", noise / full, f"{at}.out_noise",
            why=f"out_noise / {full:g}, the full scale",
        )
    else:
        draft.done(f"{at}.out_noise_std")
    _range(draft, at, direction)
    if at == "backward" or draft.get(f"{at}.bound_management") == "NONE":
        draft.done_below(*(f"{at}.{name}" for name in (
            "bound_management", "max_bm_factor", "max_bm_res", "bm_test_negative_bound"
        )))
    if draft.number(f"{at}.v_offset_std") == 0 and draft.number(f"{at}.r_series") == 0:
        draft.done(f"{at}.v_offset_w_min")
    if draft.number(f"{at}.out_nonlinearity") == 0:
        draft.done(f"{at}.out_nonlinearity_std")
    if draft.get(f"{at}.mv_type") == "ONE_PASS":
        draft.done(f"{at}.mv_type", f"{at}.w_read_asymmetry_dtod")
    if draft.number(f"{at}.out_scale") == 1:
        draft.done(f"{at}.out_scale")
    if draft.number(f"{at}.ir_drop") == 0:
        draft.done(*(key for key in draft.names() if key.startswith(f"{at}.ir_drop")))


def _resolution(draft: Draft, key: str, name: str) -> None:
    value = draft.number(name)
    if value <= 0:
        draft.done(name)
        return
    steps = value if value > 1 else 1.0 / value
    bits = max(round(math.log2(steps + 2)), 1)
    draft.carry(key, bits, name, why="steps + 2 = 2 ^ bits")
    if abs(2**bits - 2 - steps) > 0.5:
        draft.leave(name, f"{steps:g} steps, carried as {bits} bits, {2**bits - 2} steps")


def _range(draft: Draft, at: str, direction: str) -> None:
    """The range of the input converter, where it has a largest value of its own."""
    managed, bound = draft.get(f"{at}.noise_management"), draft.number(f"{at}.inp_bound")
    threshold = draft.number(f"{at}.nm_thres")
    names = (f"{at}.noise_management", f"{at}.nm_thres", f"{at}.inp_bound")
    learned = at == "forward" and bool(draft.get("pre_post.input_range.enable"))
    if managed == "ABS_MAX" and threshold <= 0 and bound == 1:
        draft.done(*names)
    elif managed == "ABS_MAX" and bound == 1:
        draft.carry(f"{direction}.input_range", threshold, *names)
    elif managed in ("NONE", "CONSTANT") and bound > 0:
        scale = threshold if managed == "CONSTANT" and threshold > 0 else 1.0
        if learned:
            draft.done(*names)
        else:
            draft.carry(f"{direction}.input_range", scale * bound, *names)


def _cell_noise(draft: Draft, omega: float, mapping: str) -> None:
    """Read noise of the weights, and wires: both directions share them in a card."""
    both = [at for at in _DIRECTIONS if draft.get(f"{at}.w_noise_type") is not None]
    active = [at for at in both if not _perfect(draft, at)]
    laws = {
        at: (draft.get(f"{at}.w_noise_type"), draft.number(f"{at}.w_noise"))
        for at in active
        if draft.number(f"{at}.w_noise") > 0 and draft.get(f"{at}.w_noise_type") != "NONE"
    }
    for at in both:
        if at not in laws:
            draft.done(f"{at}.w_noise", f"{at}.w_noise_type")
    first = next(iter(laws), None)
    if first is None:
        return
    law, size = laws[first]
    names = (f"{first}.w_noise_type", f"{first}.w_noise")
    if law == "ADDITIVE_CONSTANT":
        factor = math.sqrt(2.0) if mapping == "differential" else 2.0
        draft.carry("cell.read_noise.law", "constant", names[0])
        draft.carry(
            "cell.read_noise.sigma", size / omega / factor, *names,
            why="per weight; a card's is per cell of it",
        )
    elif law == "PCM_READ" and mapping == "differential":
        draft.carry("cell.read_noise.law", "sqrt", names[0])
        draft.carry("cell.read_noise.sigma", size / math.sqrt(omega), *names)
    else:
        return
    for at in both:
        if laws.get(at) != laws[first]:
            draft.leave(f"{at}.w_noise", f"a card's cells have the noise of {first}.w_noise in "
                        "both directions")
        draft.done(f"{at}.w_noise", f"{at}.w_noise_type")


def _idle(name: str, value: object) -> bool:
    if name.endswith((".res", ".x_res_implicit", ".d_res_implicit")) and value == -1:
        return True
    return value in (None, False, 0, "NONE") or value == [] or value == {}


def _reason(name: str) -> str:
    reasons = {
        "device": "pulse response: no card entry",
        "update": "pulse response: no card entry",
        "noise_model": "no card entry",
        "bound_management": "reads are not repeated at half the input when an output clips",
        "max_bm": "reads are not repeated at half the input when an output clips",
        "bm_test": "reads are not repeated at half the input when an output clips",
        "ir_drop": "an approximation of its own; wires are array.wire_word_ohm and wire_bit_ohm",
        "sto_round": "converters round to the nearest code",
        "out_noise_std": "the noise of all lines is the same",
        "inp_noise": "inputs have no noise",
        "mv_type": "positive and negative inputs are read at once",
    }
    for part, reason in reasons.items():
        if name.startswith(part) or part in name.rpartition(".")[2]:
            return reason
    return "no card entry"


def _technology(label: str) -> str:
    words = {
        "ReRam": "resistive memory", "PCM": "phase-change memory", "EcRam": "ECRAM",
        "Capacitor": "capacitor", "StandardHWA": "phase-change memory",
    }
    return next((text for part, text in words.items() if part in label), "not stated")
