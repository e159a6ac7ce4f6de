"""A card out of a parameter file of Sandia's CrossSim (JSON, versions 3.0 to 3.2).

CrossSim drives the rows of an array in an ``mvm`` and its columns in a ``vmm``: its rows are
eptsim's word lines, ``mvm`` is the forward read and ``vmm`` the transposed one. Conductances and
errors are fractions of the highest conductance, 1 / Rmin, in both.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from eptsim.base.errors import CardError
from eptsim.cards.check import show
from eptsim.cards.importers.draft import Draft, Imported

_BALANCED, _BIT_SLICED, _OFFSET = 1, 2, 3
_CALIBRATED, _MAX, _GRANULAR = 1, 2, 3
_NUMERICS = "simulation"
_DIRECTIONS = {"mvm": "forward", "vmm": "transpose"}

#: What CrossSim assumes where a file is silent, as far as it matters here.
DEFAULTS: dict[str, object] = {
    "core.style": _BALANCED,
    "core.balanced.style": 1,
    "core.bit_sliced.style": _BALANCED,
    "core.bit_sliced.num_slices": 2,
    "core.offset.style": 1,
    "core.mapping.weights.clipping": True,
    "core.mapping.weights.percentile": 1.0,
    "core.mapping.inputs._match": True,
    "core.mapping.inputs.mvm.min": -1.0,
    "core.mapping.inputs.mvm.max": 1.0,
    "xbar.device.Rmin": 1000.0,
    "xbar.device.Rmax": 10000.0,
    "xbar.adc._match": True,
    "xbar.adc.mvm.adc_range_option": _CALIBRATED,
    "xbar.dac._match": True,
}

#: Values at which a setting does nothing.
_IDLE: dict[str, tuple[object, ...]] = {
    "core.balanced.subtract_current_in_xbar": (True,),
    "core.output_dtype": (1, 2, 3, 4, 5),
    "core.mapping.weights.row_partition_priority": ([],),
    "core.mapping.weights.col_partition_priority": ([],),
    "xbar.array.parasitics.current_from_input": (True,),
    "xbar.array.parasitics.selected_rows": ("top",),
}


def import_crosssim(path: str | Path, name: str | None = None) -> Imported:
    """Card out of a CrossSim parameter file.

    Parameters
    ----------
    path
        The JSON file that CrossSim's ``params.write_json`` wrote.
    name
        Name of the card; the file's own where None.

    Raises
    ------
    CardError
        For a file that cannot be read, is no such file, or holds values that no card may have.
    """
    file = Path(path)
    settings = _read(file)
    draft = Draft(settings, "crosssim", file.name)
    draft.done_below(_NUMERICS)
    _device(draft)
    _core(draft)
    _parasitics(draft)
    for matmul, direction in _DIRECTIONS.items():
        _converters(draft, matmul, direction)
    draft.leave_rest(_idle, _reason)
    stem = name or file.stem.lower().replace("-", "_")
    return draft.finish(
        stem, f"CrossSim: {file.name}", f"Imported from CrossSim's parameter file {file.name}.",
        "not stated by the file",
    )


def _read(file: Path) -> dict[str, object]:
    try:
        document = json.loads(file.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        raise CardError(f"{file}: found no readable JSON file: {error}.") from error
    if not isinstance(document, dict) or not {"core", "xbar"} <= set(document):
        raise CardError(
            f"{file}: found {show(document)}, allowed: a CrossSim parameter file, with the "
            "objects 'core' and 'xbar'."
        )
    settings: dict[str, object] = dict(DEFAULTS)
    given = _flat(document, "")
    settings.update(given)
    for pair in ("core.mapping.inputs", "xbar.adc", "xbar.dac"):
        if settings[f"{pair}._match"]:
            for key in [key for key in settings if key.startswith(f"{pair}.vmm.")]:
                del settings[key]
            first = {k: v for k, v in settings.items() if k.startswith(f"{pair}.mvm.")}
            settings.update({k.replace(".mvm.", ".vmm."): v for k, v in first.items()})
        del settings[f"{pair}._match"]
    return settings


def _flat(table: Mapping[str, object], prefix: str) -> dict[str, object]:
    flat: dict[str, object] = {}
    for key, value in table.items():
        if isinstance(value, dict):
            flat.update(_flat(value, f"{prefix}{key}."))
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def _device(draft: Draft) -> None:
    at = "xbar.device"
    r_min, r_max = draft.number(f"{at}.Rmin"), draft.number(f"{at}.Rmax")
    if not 0 < r_min < r_max:
        raise CardError(
            f"{at}.Rmin, Rmax: found {r_min:g} and {r_max:g}, allowed: 0 < Rmin < Rmax (ohm)."
        )
    draft.carry("cell.g_max_s", 1.0 / r_min, f"{at}.Rmin", why="1 / Rmin")
    if draft.get(f"{at}.infinite_on_off_ratio"):
        draft.carry("cell.g_min_s", 0.0, f"{at}.infinite_on_off_ratio")
        draft.done(f"{at}.Rmax")
    else:
        draft.carry("cell.g_min_s", 1.0 / r_max, f"{at}.Rmax", why="1 / Rmax")
        draft.done(f"{at}.infinite_on_off_ratio")
    bits = draft.count(f"{at}.cell_bits", 24)
    if bits > 0:
        draft.carry("cell.levels", 2**bits, f"{at}.cell_bits", why="2 ^ cell_bits")
    _error(draft, f"{at}.programming_error", "cell.programming")
    _error(draft, f"{at}.read_noise", "cell.read_noise")
    for what in ("drift_error", "nonlinear_IV"):
        if draft.get(f"{at}.{what}.enable"):
            draft.leave(f"{at}.{what}.model", "a model in Python code, which a card cannot hold")
        draft.done_below(f"{at}.{what}")
    if not draft.get(f"{at}.nonlinear_IV.enable"):
        draft.done(f"{at}.Vread")
    elif draft.get(f"{at}.Vread") is not None:
        volts = draft.number(f"{at}.Vread")
        draft.carry("array.read_voltage_v", volts, f"{at}.Vread")


def _error(draft: Draft, at: str, section: str) -> None:
    """Programming error or read noise: the generic normal models have entries."""
    model, size = draft.get(f"{at}.model"), draft.number(f"{at}.magnitude")
    names = (f"{at}.enable", f"{at}.model", f"{at}.magnitude")
    proportional = model == "NormalProportionalDevice"
    if not draft.get(f"{at}.enable") or model in (None, "IdealDevice"):
        draft.done_below(at)
    elif model not in ("NormalIndependentDevice", "NormalProportionalDevice"):
        draft.leave(f"{at}.model", "no entry of a card has this law of the conductance")
        draft.done_below(at)
    elif section == "cell.read_noise":
        draft.carry(f"{section}.law", "proportional" if proportional else "constant", names[1])
        draft.carry(f"{section}.sigma", size, *names)
    else:
        draft.carry(f"{section}.{'sigma_linear' if proportional else 'sigma'}", size, *names)


def _core(draft: Draft) -> None:
    style = draft.get("core.style")
    sliced = style == _BIT_SLICED
    inner = draft.get("core.bit_sliced.style") if sliced else style
    where = "core.bit_sliced.style" if sliced else "core.style"
    if inner == _OFFSET:
        unit_column = draft.get("core.offset.style") == 2
        mapping = "reference_column" if unit_column else "offset"
        draft.carry("array.mapping", mapping, where, "core.offset.style")
        if unit_column:
            draft.leave("core.offset.style", "carried as a reference column that is subtracted "
                        "before the converter, not after it")
        draft.done_below("core.balanced")
    elif inner == _BALANCED:
        draft.carry("array.mapping", "differential", where)
        if draft.get("core.balanced.style") == 2:
            draft.leave("core.balanced.style", "both cells of a pair carry the weight; a card's "
                        "pair leaves one of them at g_min_s")
        draft.done("core.balanced.style")
        draft.done_below("core.offset")
    else:
        raise CardError(f"{where}: found {show(inner)}, allowed: 1 (balanced) or 3 (offset).")
    if sliced:
        slices = draft.count("core.bit_sliced.num_slices", 64)
        draft.carry("array.slices", slices, "core.bit_sliced.num_slices", "core.style")
        if draft.get("core.weight_bits"):
            draft.leave("core.weight_bits", "the slices hold digits of base cell.levels")
    draft.done("core.style", "core.weight_bits")
    draft.done_below("core.bit_sliced")
    for key, name in (("array.rows", "core.rows_max"), ("array.columns", "core.cols_max")):
        if (size := draft.count(name, 2**24)) > 0:
            draft.carry(key, size, name)
        draft.done(name)
    _weights(draft)


def _weights(draft: Draft) -> None:
    at = "core.mapping.weights"
    percentile = draft.get(f"{at}.percentile")
    if percentile is not None:
        share = draft.number(f"{at}.percentile")
        if share > 1:
            draft.leave(f"{at}.percentile", "room above the largest weight")
        elif share < 1:
            draft.carry("array.clip_percentile", 100.0 * share, f"{at}.percentile")
        draft.done(f"{at}.min", f"{at}.max")
    draft.done(f"{at}.percentile", f"{at}.clipping")
    for way, rows in (("row", "core.rows_max"), ("col", "core.cols_max")):
        strategy = f"{at}.{way}_partition_strategy"
        if draft.get(strategy) == 1 or draft.number(rows) == 0:
            draft.done(strategy)


def _parasitics(draft: Draft) -> None:
    at = "xbar.array.parasitics"
    if not draft.get(f"{at}.enable"):
        draft.done_below(at)
        return
    draft.done(f"{at}.enable")
    for key, name in (
        ("array.wire_word_ohm", "Rp_row"),
        ("array.wire_bit_ohm", "Rp_col"),
        ("array.driver_ohm", "Rp_row_terminal"),
        ("array.sense_ohm", "Rp_col_terminal"),
    ):
        if draft.size(f"{at}.{name}") > 0:
            draft.carry(key, draft.size(f"{at}.{name}"), f"{at}.{name}")
        draft.done(f"{at}.{name}")


def _converters(draft: Draft, matmul: str, direction: str) -> None:
    _dac(draft, f"xbar.dac.{matmul}", f"core.mapping.inputs.{matmul}", direction)
    at = f"xbar.adc.{matmul}"
    bits = draft.count(f"{at}.bits", 64)
    if bits == 0 or draft.get(f"{at}.model") in (None, "IdealADC"):
        draft.done_below(at)
        return
    draft.carry(f"{direction}.adc_bits", bits, f"{at}.bits")
    if draft.get(f"{at}.model") != "SignMagnitudeADC":
        draft.leave(f"{at}.model", "carried as a symmetric converter of 2^bits - 1 codes without "
                    "circuit errors")
    draft.done(f"{at}.model")
    option, found = draft.get(f"{at}.adc_range_option"), draft.get(f"{at}.calibrated_range")
    sliced = draft.get("core.style") == _BIT_SLICED
    if option == _CALIBRATED and _is_range(found) and not sliced:
        assert isinstance(found, list)
        low, high = float(found[0]), float(found[1])
        span = 1.0 - _g_min_share(draft)
        top = max(abs(low), abs(high)) / span
        draft.carry(
            f"{direction}.output_range", top, f"{at}.calibrated_range", f"{at}.adc_range_option",
            why="the larger end over the conductance window, Gmax - Gmin of Gmax",
        )
        if low != -high:
            draft.leave(f"{at}.calibrated_range", "carried as a range symmetric about 0")
    else:
        draft.leave(f"{at}.calibrated_range" if option == _CALIBRATED else f"{at}.adc_range_option",
                    "a range per slice, or one that follows the matrix; output_range is one number")
    draft.done(f"{at}.calibrated_range", f"{at}.adc_range_option")


def _is_range(found: object) -> bool:
    return (
        isinstance(found, list)
        and len(found) == 2
        and all(isinstance(end, int | float) for end in found)
        and found[0] < found[1]
    )


def _g_min_share(draft: Draft) -> float:
    if draft.get("xbar.device.infinite_on_off_ratio"):
        return 0.0
    return draft.number("xbar.device.Rmin") / draft.number("xbar.device.Rmax")


def _dac(draft: Draft, at: str, inputs: str, direction: str) -> None:
    bits = draft.count(f"{at}.bits", 64)
    ideal = bits == 0 or draft.get(f"{at}.model") in (None, "IdealDAC")
    if ideal:
        draft.done_below(at)
    else:
        draft.carry(f"{direction}.dac_bits", bits, f"{at}.bits")
        if draft.get(f"{at}.model") == "SignMagnitudeDAC":
            draft.done(f"{at}.model")
        else:
            draft.leave(f"{at}.model", "carried as a symmetric converter of 2^bits - 1 codes")
        if not draft.get(f"{at}.input_bitslicing"):
            draft.done(f"{at}.input_bitslicing", f"{at}.slice_size")
    low, high = draft.number(f"{inputs}.min"), draft.number(f"{inputs}.max")
    names = (f"{inputs}.min", f"{inputs}.max", f"{inputs}.clipping")
    unlimited = ideal and not draft.get(f"{inputs}.clipping")
    if unlimited or draft.get(f"{inputs}.percentile") is not None:
        draft.done(*names)
    elif low == -high and high > 0:
        draft.carry(f"{direction}.input_range", high, *names)


def _idle(name: str, value: object) -> bool:
    if name in _IDLE:
        return any(value == known and type(value) is type(known) for known in _IDLE[name])
    if name.endswith(".signed"):
        return value is True
    return value is None or value is False or value == 0 or value == []


def _reason(name: str) -> str:
    reasons = {
        "gain_db": "circuit of the converter: no card entry",
        "sigma_": "circuit of the converter: no card entry",
        "_cdac": "circuit of the converter: no card entry",
        "group_size": "circuit of the converter: no card entry",
        "stochastic_rounding": "converters round to the nearest code",
        "bitslicing": "inputs are driven as one value",
        "slice_size": "inputs are driven as one value",
        "adc_per_ibit": "inputs are driven as one value",
        "partition": "tiles are filled, and the last one is what is left",
        "complex": "weights and inputs are real",
        "Icol_max": "columns are not clipped before the converter",
        "percentile": "inputs are scaled by the range policy",
        "weights.": "weights are scaled to their largest magnitude, or a percentile of it",
        "inputs.": "the range of a converter is symmetric about 0",
        "clip_conductance": "errors are clipped at 0 only",
        "time": "drift models are Python code there",
    }
    for part, reason in reasons.items():
        if part in name:
            return reason
    return "no card entry"
