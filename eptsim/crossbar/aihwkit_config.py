"""What an aihwkit configuration means for an array: checks, ranges, converters, a private copy.

aihwkit scales a vector to its converter inside the tile (noise management) or before it (input
range). Which vectors share a range is the range policy's decision in eptsim, so both are taken out
of the copy that the tiles are made from and applied around them, by the same rule:

=============================  ==========================================================
``noise_management``           range of the converter
=============================  ==========================================================
``ABS_MAX``                    policy ``per_vector``, at most ``nm_thres`` where it is set
``CONSTANT``                   policy ``fixed``, at ``nm_thres`` (1 where it is not set)
``NONE``                       policy ``fixed``, at 1
enabled ``input_range``        policy ``fixed``, at ``init_value`` times that range
=============================  ==========================================================
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from eptsim.base.errors import InputError
from eptsim.cards import Card, load_card
from eptsim.cards.array_entries import DEFAULT_FULL_SCALE
from eptsim.cards.schema import SCHEMA
from eptsim.crossbar.aihwkit_native import require_aihwkit

_MANAGED = ("NONE", "ABS_MAX", "CONSTANT")
_BOUNDED = ("NONE", "ITERATIVE")


@dataclass(frozen=True)
class AihwkitConverters:
    """The converters of one direction of an aihwkit configuration.

    Attributes
    ----------
    dac_steps, adc_steps : int or None
        Codes per polarity, 1 / (2 res); None is ideal.
    full_scale : float
        ``out_bound``, in units of (weight 1) x (input 1).
    noisy : bool
        Whether two reads of the same input differ.
    exact : bool
        Whether the read is the bare matmul (``is_perfect``).
    policy : str
        Range policy that the configuration asks for.
    limit : float or None
        Largest range of the policies ``per_vector`` and ``held``.
    fixed : float
        Range of the policy ``fixed``.
    """

    dac_steps: int | None
    adc_steps: int | None
    full_scale: float
    noisy: bool
    exact: bool
    policy: str
    limit: float | None
    fixed: float


_EXACT = AihwkitConverters(
    dac_steps=None,
    adc_steps=None,
    full_scale=DEFAULT_FULL_SCALE,
    noisy=False,
    exact=True,
    policy="per_vector",
    limit=None,
    fixed=1.0,
)


def check_rpu_config(rpu_config: object) -> None:
    """Refuse what is not an aihwkit configuration, or one that a crossbar cannot honour.

    Raises
    ------
    InputError
        Where aihwkit is missing or does not match the installed torch, and for a setting that
        would be ignored or break what eptsim promises of a read; it names setting and reason.
    """
    require_aihwkit()
    from aihwkit.simulator.configs import FloatingPointRPUConfig
    from aihwkit.simulator.configs.configs import IOManagedRPUConfig
    from aihwkit.simulator.parameters.enums import RPUDataType

    if isinstance(rpu_config, type):
        raise InputError(
            f"rpu_config: found the class {rpu_config.__name__}, allowed: an instance of it."
        )
    if not isinstance(rpu_config, FloatingPointRPUConfig | IOManagedRPUConfig):
        raise InputError(
            f"rpu_config: found {type(rpu_config).__name__}, allowed: an aihwkit configuration or "
            "preset (SingleRPUConfig, UnitCellRPUConfig, InferenceRPUConfig, ...)."
        )
    config: Any = rpu_config
    if config.runtime.data_type != RPUDataType.FLOAT:
        raise _refusal("runtime.data_type", config.runtime.data_type.name, "FLOAT (float32)")
    if isinstance(config, IOManagedRPUConfig):
        for name, io in (("forward", config.forward), ("backward", config.backward)):
            _check_io(name, io, is_inference(config))
        _check_device(config)
    if is_inference(config):
        _check_inference(config)


def is_inference(config: object) -> bool:
    """Whether ``config`` has a noise model of programming and drift."""
    from aihwkit.simulator.configs import InferenceRPUConfig

    return isinstance(config, InferenceRPUConfig)


def _refusal(setting: str, found: object, allowed: str) -> InputError:
    return InputError(f"rpu_config.{setting}: found {found}, allowed: {allowed}.")


def _perfect(io: Any) -> bool:
    return bool(io.is_perfect) or io.mv_type.name == "IDEAL"


def _check_io(name: str, io: Any, inference: bool) -> None:
    if _perfect(io):
        return
    managed, bounded = io.noise_management.name, io.bound_management.name
    if managed not in _MANAGED:
        raise _refusal(
            f"{name}.noise_management",
            managed,
            f"{', '.join(_MANAGED)}, because a range must not depend on sign or on earlier reads",
        )
    if name == "forward" and bounded not in _BOUNDED:
        raise _refusal(f"{name}.bound_management", bounded, ", ".join(_BOUNDED))
    if inference and name == "backward" and io.out_noise_std > 0:
        raise _refusal("backward.out_noise_std", io.out_noise_std, "0 in an inference tile")


def _check_device(config: Any) -> None:
    from aihwkit.simulator.configs.compounds import UnitCell

    device = config.device
    if isinstance(device, UnitCell) and not device.unit_cell_devices:
        raise _refusal("device.unit_cell_devices", "none", "one device or more")


def _check_inference(config: Any) -> None:
    from aihwkit.simulator.configs import QuantizedTorchInferenceRPUConfig
    from aihwkit.simulator.parameters.enums import WeightModifierType

    modifier = config.modifier
    plain = modifier.type in (WeightModifierType.NONE, WeightModifierType.COPY)
    if not plain or modifier.pdrop > 0:
        raise _refusal(
            "modifier",
            f"{modifier.type.name} with pdrop {modifier.pdrop:g}",
            "NONE, because it disturbs the weights of software training, not those of a chip",
        )
    if isinstance(config, QuantizedTorchInferenceRPUConfig):
        bits = config.pre_post.periph_quant.n_bits
        if bits > 0 or config.act_quant_config is not None:
            raise _refusal(
                "pre_post.periph_quant, act_quant_config",
                f"{bits} bits, {config.act_quant_config}",
                "none; the number format of the digital side is Chip's `periphery`",
            )


def converters(config: Any, direction: str) -> AihwkitConverters:
    """Converters and ranges of one direction of a checked configuration."""
    from aihwkit.simulator.configs import FloatingPointRPUConfig

    if isinstance(config, FloatingPointRPUConfig):
        return _EXACT
    io = config.forward if direction == "forward" else config.backward
    if _perfect(io):
        return _EXACT
    threshold = float(io.nm_thres) if io.nm_thres > 0 else None
    managed = io.noise_management.name
    policy = "per_vector" if managed == "ABS_MAX" else "fixed"
    limit = threshold if managed == "ABS_MAX" else None
    fixed = 1.0 if managed == "NONE" or threshold is None else threshold
    learned = config.pre_post.input_range
    if direction == "forward" and learned.enable:
        policy, fixed = "fixed", fixed * float(learned.init_value)
    return AihwkitConverters(
        dac_steps=_steps(io.inp_res),
        adc_steps=_steps(io.out_res),
        full_scale=float(io.out_bound) if io.out_bound > 0 else DEFAULT_FULL_SCALE,
        noisy=_noisy(io),
        exact=False,
        policy=policy,
        limit=limit,
        fixed=fixed,
    )


def _steps(resolution: float) -> int | None:
    if resolution <= 0:
        return None
    share = 1.0 / resolution if resolution > 1 else resolution  # a number of steps, or their width
    return max(round(0.5 / share), 1)


def _noisy(io: Any) -> bool:
    from aihwkit.simulator.parameters import IOParametersIRDropT
    from aihwkit.simulator.parameters.enums import WeightNoiseType

    return bool(
        io.out_noise > 0
        or io.inp_noise > 0
        or (io.w_noise > 0 and io.w_noise_type != WeightNoiseType.NONE)
        or (io.inp_sto_round and io.inp_res > 0)
        or (io.out_sto_round and io.out_res > 0)
        or (isinstance(io, IOParametersIRDropT) and io.apply_xdep_pcm_read_noise)
    )


def private_copy(rpu_config: object, seed: int) -> Any:
    """Copy of a checked configuration for one tile: its devices drawn from ``seed``, no ranges.

    A ``device.construction_seed`` that is set is kept, as aihwkit means it: then every tile has
    the same devices.
    """
    from aihwkit.simulator.configs import FloatingPointRPUConfig
    from aihwkit.simulator.parameters.enums import NoiseManagementType

    config: Any = copy.deepcopy(rpu_config)
    config.pre_post.input_range.enable = False
    if isinstance(config, FloatingPointRPUConfig):
        return config
    for io in (config.forward, config.backward):
        io.noise_management = NoiseManagementType.NONE
    if config.device.construction_seed == 0:
        config.device.construction_seed = seed
    return config


def quiet_writing(config: Any) -> tuple[float, tuple[str, ...]]:
    """Switch off, in a private copy, the write noise of the first programming of each device.

    aihwkit draws it from a generator that starts at the clock. Returns the standard deviation that
    is to be added instead (0 where there is none), and the settings that are left out because
    their devices share one weight.
    """
    sigma, left_out = 0.0, []
    for name, device in _devices("device", config.device):
        fields = {field.name for field in dataclasses.fields(device)}
        if "apply_write_noise_on_set" not in fields:
            continue
        if device.write_noise_std > 0 and device.apply_write_noise_on_set:
            if name == "device" and device.dw_min is not None:
                sigma = float(device.write_noise_std * device.dw_min)
            else:
                left_out.append(f"{name}.apply_write_noise_on_set")
        device.apply_write_noise_on_set = False
    return sigma, tuple(left_out)


def _devices(name: str, device: Any) -> Iterator[tuple[str, Any]]:
    """``device`` and those that it is made of, with their names."""
    yield name, device
    for field in dataclasses.fields(device):
        value = getattr(device, field.name)
        if field.name == "unit_cell_devices":
            for index, inner in enumerate(value):
                yield from _devices(f"{name}.unit_cell_devices[{index}]", inner)
        elif field.name == "device":
            yield from _devices(f"{name}.device", value)


def node_card(card: object) -> Card:
    """The card of a chip on aihwkit arrays: it speaks of the state nodes only.

    Raises
    ------
    InputError
        For a card with any other entry that is not ideal: the configuration decides on arrays,
        so it would do nothing.
    """
    if card is None:
        return load_card("ideal")
    if not isinstance(card, Card):
        raise InputError(
            f"card: found {type(card).__name__}, allowed: a Card (eptsim.load_card) or None."
        )
    idle = [
        entry.key
        for entry in card.entries()
        if entry.value != SCHEMA[entry.key].default and not entry.key.startswith("node.")
    ]
    if idle:
        raise InputError(
            f"card {card.name!r} with backend 'aihwkit': {', '.join(idle)}: found other than "
            "default, allowed: node.* only; the arrays are the rpu_config's business."
        )
    return card
