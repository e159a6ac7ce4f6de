"""The cells of an aihwkit configuration: its statistical noise model, or its pulsed device."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from eptsim.base.table import Table
from eptsim.base.units import to_base
from eptsim.cards.importers.draft import Draft

#: Where a curve over the conductance becomes one number of a card, as a fraction of g_max.
MIDDLE = 0.5
_POLYNOMIAL = (
    "PCMLikeNoiseModel", "CustomDriftPCMLikeNoiseModel", "HermesNoiseModel",
    "StateIndependentNoiseModel",
)
_POINTS, _DRAWS, _LATER_S = 21, 1_000_000, 3600.0


def noise_model(draft: Draft, config: Any) -> None:
    """Programming error, drift and 1/f noise of an inference configuration."""
    model, at = config.noise_model, "noise_model"
    converter = draft.get(f"{at}.g_converter")
    single = converter == "SingleDeviceConductanceConverter"
    draft.carry("array.mapping", "offset" if single else "differential", f"{at}.g_converter")
    if converter not in ("SinglePairConductanceConverter", "SingleDeviceConductanceConverter"):
        draft.leave(f"{at}.g_converter", "carried as one pair of cells per weight")
    g_max, g_min = (draft.number(f"{at}.g_converter.{name}") for name in ("g_max", "g_min"))
    draft.carry("cell.g_max_s", _siemens(g_max), f"{at}.g_converter.g_max")
    draft.carry("cell.g_min_s", _siemens(g_min), f"{at}.g_converter.g_min")
    draft.done(f"{at}.g_max", f"{at}.g_min")
    fitted = draft.get(at) in _POLYNOMIAL
    drifts = False
    if fitted:
        _polynomial(draft, model)
        drifts = _drift(draft, model, g_max)
        draft.done(at)
    else:
        _sampled(draft, model, g_min, g_max)
        draft.leave(at, "its programming error is carried as a table; how it goes on in time has "
                    "no card entry")
    compensation = draft.get("drift_compensation")
    if compensation is None or not drifts:
        draft.done_below("drift_compensation")
        return
    draft.carry("cell.drift.compensation", "reference_read", "drift_compensation")
    if compensation != "GlobalDriftCompensation":
        draft.leave("drift_compensation", "carried as one factor per array")


def _polynomial(draft: Draft, model: Any) -> None:
    """Programming error: a polynomial of G / g_max, in uS of the g_max that it was fitted at."""
    names = tuple(
        f"noise_model.{name}"
        for name in ("prog_coeff", "prog_noise_scale", "prog_coeff_g_max_reference")
    )
    reference = draft.number("noise_model.prog_coeff_g_max_reference") or float(model.g_max)
    scale = float(model.prog_noise_scale) / reference
    coefficients = [float(value) * scale for value in model.prog_coeff]
    if len(coefficients) <= 3:
        for key, value in zip(("sigma", "sigma_linear", "sigma_quadratic"), coefficients,
                              strict=False):
            draft.carry(f"cell.programming.{key}", value, *names, kind="fitted")
        return
    x = np.linspace(0.0, 1.0, _POINTS)
    sigma = np.maximum(np.polynomial.polynomial.polyval(x, coefficients), 0.0)
    table = _table((x * float(model.g_max)).tolist(), (sigma * float(model.g_max)).tolist())
    draft.carry("cell.programming.table", table, *names, kind="fitted")


def _sampled(draft: Draft, model: Any, g_min: float, g_max: float) -> None:
    """Programming error of a model that only its code knows: spread of what it programs."""
    import torch

    grid = torch.linspace(g_min, g_max, _POINTS)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(1)
        drawn = model.apply_programming_noise_to_conductance(
            grid.expand(_DRAWS // 50, _POINTS).clone()
        )
    # from the absolute deviations, of which the clip at 0 changes only half
    above = (drawn - grid).clamp(min=0.0).double().square().mean(dim=0) * 2.0
    table = _table(grid.tolist(), above.sqrt().tolist())
    draft.carry(
        "cell.programming.table", table, kind="fitted",
        why=f"spread of {_DRAWS // 50} conductances that the model programs at each point",
    )


def _drift(draft: Draft, model: Any, g_max: float) -> bool:
    """Drift exponent and 1/f noise at half of g_max, where the models have curves.

    Returns whether there is drift.
    """
    import torch

    at, middle = "noise_model", torch.full((_DRAWS,), MIDDLE * g_max)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(1)
        nu = model.generate_drift_coefficients(middle.clone())
        later = model.apply_drift_noise_to_conductance(
            middle.clone(), torch.zeros_like(middle), _LATER_S
        )
    where = f"at G = {MIDDLE:g} g_max, where the model has a curve over G"
    if float(nu.mean()) > 0:
        names = (f"{at}.drift_scale", f"{at}.t_0")
        draft.carry("cell.drift.nu", _round(float(nu.mean())), *names, kind="fitted", why=where)
        draft.carry("cell.drift.nu_sigma", _round(float(nu.std())), *names, kind="fitted",
                    why=where)
        draft.carry("cell.drift.t0_s", float(model.t_0), f"{at}.t_0", kind="fitted")
        draft.leave(f"{at}.drift_scale", f"nu depends on G; carried {where}")
        draft.done(f"{at}.custom_drift_model")
    relative = float(later.std() / later.mean())
    if relative > 0:
        t_read = float(model.t_read)
        folds = math.log((_LATER_S + float(model.t_0) + t_read) / (2.0 * t_read))
        names = (f"{at}.read_noise_scale", f"{at}.t_read")
        draft.carry("cell.flicker.sigma", _round(relative / math.sqrt(folds)), *names,
                    kind="fitted", why=where)
        draft.carry("cell.flicker.fastest_s", 2.0 * t_read, f"{at}.t_read", kind="fitted")
        draft.leave(f"{at}.read_noise_scale", f"its law over G; carried {where}")
    draft.done(f"{at}.drift_nu_mean", f"{at}.drift_nu_std")
    draft.done(f"{at}.drift_scale", f"{at}.t_0", f"{at}.read_noise_scale", f"{at}.t_read",
               f"{at}.num_devices")
    return float(nu.mean()) > 0


def pulsed_device(draft: Draft) -> str:
    """What a pulsed device says of a stored weight; returns the mapping of its weights.

    One device holds a weight between ``w_min`` and ``w_max``: its lowest and highest conductance.
    How it answers to pulses has no card entry.
    """
    if draft.get("device.w_max") is None or draft.get("device.w_min") is None:
        return "differential"
    top, low = draft.number("device.w_max"), draft.number("device.w_min")
    span = top - low
    if span <= 0:
        return "differential"
    draft.carry("array.mapping", "offset", "device.w_max", "device.w_min",
                why="one device per weight, w_min at its lowest conductance")
    if top != -low or top != (draft.number("mapping.weight_scaling_omega") or top):
        draft.leave("device.w_max", "room above the largest weight, or a range that is not "
                    "symmetric about 0")
    for key, bound, name in (("g_max", top, "w_max_dtod"), ("g_min", low, "w_min_dtod")):
        spread = draft.number(f"device.{name}") * abs(bound) / span
        if spread > 0:
            draft.carry(f"cell.spread.{key}", spread, f"device.{name}",
                        why="of the width of the window, w_max - w_min")
    write = draft.number("device.write_noise_std") * draft.number("device.dw_min") / span
    if write > 0 and draft.get("device.apply_write_noise_on_set"):
        draft.carry("cell.programming.sigma", min(write, 1.0), "device.write_noise_std",
                    why="write_noise_std x dw_min of the width of the window")
    draft.done("device.apply_write_noise_on_set")
    share = draft.number("device.corrupt_devices_prob")
    if share > 0:
        draft.carry("cell.stuck.random", share, "device.corrupt_devices_prob")
    else:
        draft.done("device.corrupt_devices_range")
    return "offset"


def _siemens(micro: float) -> float:
    return to_base(float(f"{micro:.6g}"), "uS", "conductance")


def _table(g_us: list[float], sigma_us: list[float]) -> Table:
    """Table of standard deviations over conductances, both given in uS."""
    return Table.of([_siemens(g) for g in g_us], [_siemens(_round(value)) for value in sigma_us])


def _round(value: float) -> float:
    return float(f"{value:.3g}")
