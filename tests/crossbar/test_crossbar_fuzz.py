"""Whatever comes in, what comes out is finite, or an error that eptsim raises on purpose."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from eptsim.base.errors import InputError
from eptsim.base.table import Table
from eptsim.cards.schema import SCHEMA
from eptsim.crossbar.crossbar import Crossbar

MAPPINGS = ("differential", "reference_column", "offset")
MAGNITUDES = [0.0, 5e-324, 1e-310, 1e-45, 1e-40, 1e-38, 1e-30, 1e-12, 1.0, 1e12, 1e30, 3e38, 1e300]
WORDS = ["", "x", None, True, 3, [1.0], (), {}, object(), torch.nan, torch.inf, -1, 0, 2**70, 1.5]


def tensor(data, rows, columns, dtype):
    limit = torch.finfo(dtype).max
    sizes = data.draw(st.lists(st.sampled_from(MAGNITUDES), min_size=1, max_size=3))
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 9)))
    x = torch.randn(rows, columns, generator=generator, dtype=torch.float64).clamp(-1, 1)
    scale = torch.tensor(sizes, dtype=torch.float64)
    picked = torch.randint(len(sizes), (rows, columns), generator=generator)
    return (x * scale[picked].clamp(max=limit)).clamp(-limit, limit).to(dtype)


def card_changes(data):
    changes: dict[str, object] = {"array.mapping": data.draw(st.sampled_from(MAPPINGS))}
    for d in ("forward", "transpose"):
        changes[f"{d}.dac_bits"] = data.draw(st.none() | st.integers(1, 24))
        changes[f"{d}.adc_bits"] = data.draw(st.none() | st.integers(1, 24))
        for key in ("input_range", "output_range"):
            changes[f"{d}.{key}"] = data.draw(
                st.none() | st.sampled_from([1e-300, 1e-40, 1e-20, 1e-12, 1e-3, 1.0, 1e6])
            )
        for key in ("offset", "gain", "line_noise"):
            changes[f"{d}.{key}"] = data.draw(st.sampled_from([0.0, 1e-30, 0.1, 1.0]))
    changes["cell.g_min_s"] = data.draw(st.sampled_from([0.0, 1e-7, 9.999999e-6]))
    changes["cell.levels"] = data.draw(st.none() | st.integers(2, 40))
    changes["cell.programming.sigma"] = data.draw(st.sampled_from([0.0, 0.01, 1.0]))
    changes["cell.stuck.low"] = data.draw(st.sampled_from([0.0, 0.1, 1.0]))
    if data.draw(st.booleans()):
        changes["cell.drift.nu"] = data.draw(st.sampled_from([0.0, 0.05, 1.0]))
        changes["cell.drift.t0_s"] = data.draw(st.sampled_from([1e-300, 1.0, 3600.0]))
    law = data.draw(st.sampled_from(["none", "constant", "proportional"]))
    sigma = data.draw(st.sampled_from([1e-20, 0.1, 1.0]))
    changes["cell.read_noise.law"] = law
    changes["cell.read_noise.sigma"] = 0.0 if law == "none" else sigma
    changes["array.rows"] = data.draw(st.none() | st.integers(1, 6))
    changes["array.columns"] = data.draw(st.none() | st.integers(1, 6))
    return changes


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_huge_and_tiny_numbers_are_finite_or_refused(ideal, data):
    dtype = data.draw(st.sampled_from([torch.float32, torch.float64]))
    out, inner = data.draw(st.integers(1, 7)), data.draw(st.integers(1, 7))
    fused = data.draw(st.booleans())
    changes = card_changes(data)
    try:
        w = tensor(data, out, inner, dtype)
        array = Crossbar(w, ideal.override(changes), fused=fused)
        assert torch.isfinite(array.weight()).all()
        for d in ("forward", "transpose"):
            array.hold_range(d, data.draw(st.sampled_from(MAGNITUDES[1:-2])))
    except InputError:
        return
    policy = data.draw(st.sampled_from(["per_vector", "fixed", "held"]))
    for read, width in ((array.read, inner), (array.read_transpose, out)):
        x = tensor(data, data.draw(st.integers(1, 20)), width, dtype)
        try:
            y = read(x, range_policy=policy)
        except InputError:
            continue
        assert torch.isfinite(y).all()


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_fused_and_plain_agree_on_extreme_numbers(ideal, data):
    """Noise-free, with ideal converters: both paths, to rounding, or both refuse."""
    dtype = data.draw(st.sampled_from([torch.float32, torch.float64]))
    card = ideal.override({"forward.gain": 0.1, "forward.input_range": 1e3})
    w, x = tensor(data, 5, 6, dtype), tensor(data, 4, 6, dtype)
    results = []
    for fused in (True, False):
        try:
            results.append(Crossbar(w, card, fused=fused).read(x))
        except InputError:
            results.append(None)
    one, other = results
    if one is None or other is None:
        assert one is other
        return
    size = max(float(one.abs().max()), 1e-44)
    torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5 * size)


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_wrong_things_are_refused_with_words(ideal, data):
    array = Crossbar(torch.ones(2, 3), ideal.override({"forward.dac_bits": 3}))
    word = st.sampled_from(WORDS)
    thing = data.draw(word)
    calls = [
        lambda: Crossbar(thing, ideal),
        lambda: Crossbar(torch.ones(2, 2), thing),
        lambda: Crossbar(torch.ones(2, 2), ideal, seed=thing),
        lambda: Crossbar(torch.ones(2, 2), ideal, path=thing),
        lambda: Crossbar(torch.ones(2, 2), ideal, range_policy=thing),
        lambda: array.read(thing),
        lambda: array.read(torch.ones(3), range_policy=thing),
        lambda: array.read(torch.ones(3), reference=thing),
        lambda: array.zero_reference(thing, 1),
        lambda: array.zero_reference("forward", thing),
        lambda: array.hold_range("forward", thing),
        lambda: array.hold_range(thing, 1.0),
    ]
    try:
        data.draw(st.sampled_from(calls))()
    except InputError as error:
        assert "found" in str(error)


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(sorted(SCHEMA)), st.sampled_from(WORDS))
def test_any_override_reads_or_is_refused(ideal, key, value):
    try:
        array = Crossbar(torch.eye(3), ideal.override({key: value}))
    except InputError as error:
        assert "found" in str(error)
        return
    assert torch.isfinite(array.read(torch.ones(3))).all()


# key -> (another value, what it needs to act)
CELL_NOISE = {"cell.read_noise.law": "constant", "cell.read_noise.sigma": 0.1}
DRIFT = {"cell.drift.nu": 0.05}
VERIFY = {"cell.programming.sigma": 0.1, "cell.programming.verify_tolerance": 0.02}
FLICKER = {"cell.flicker.sigma": 0.1}
RETENTION = {"cell.retention.tau_s": 1e4}
TABLE = "cell.read_noise.table"
CURVE, FLAT = Table((0.0, 1e-5), (1e-7, 3e-7)), Table((0.0, 1e-5), (1e-7, 1e-7))
BENT = {"cell.iv.law": "sinh", "cell.iv.v0_v": 0.1, "array.coding": "amplitude"}
CURVED = {
    "cell.iv.law": "table", "array.coding": "amplitude",
    "cell.iv.table": Table((0.0, 0.1, 0.2), (0.0, 0.1, 0.3)),
}  # fmt: skip
OTHER = {
    "cell.g_min_s": (1e-6, {"cell.levels": 4, "cell.programming.sigma": 0.1}),
    "cell.g_max_s": (2e-5, {"cell.g_min_s": 1e-6, "cell.programming.sigma": 0.1}),
    "cell.levels": (4, {}),
    "cell.programming.sigma": (0.1, {}),
    "cell.read_noise.law": ("proportional", CELL_NOISE),
    "cell.read_noise.sigma": (0.2, CELL_NOISE),
    "cell.drift.nu": (0.1, DRIFT),
    "cell.drift.nu_sigma": (0.1, DRIFT),
    "cell.drift.time_s": (7200.0, DRIFT),
    "cell.drift.t0_s": (10.0, DRIFT),
    "cell.stuck.low": (0.3, {}),
    "cell.stuck.high": (0.3, {}),
    "array.rows": (3, {"forward.offset": 0.1}),
    "array.columns": (3, {"transpose.offset": 0.1}),
    "array.mapping": ("offset", {"cell.levels": 4}),
    "cell.spread.g_min": (0.1, {}),
    "cell.spread.g_max": (0.1, {}),
    "cell.programming.sigma_linear": (0.1, {}),
    "cell.programming.sigma_quadratic": (0.1, {}),
    "cell.programming.table": (CURVE, {}),
    "cell.programming.verify_tolerance": (0.05, {"cell.programming.sigma": 0.1}),
    "cell.programming.verify_rounds": (2, VERIFY),
    "cell.read_noise.table": (CURVE, {"cell.read_noise.law": "table", TABLE: FLAT}),
    "cell.flicker.sigma": (0.1, {}),
    "cell.flicker.fastest_s": (1e-3, FLICKER),
    "cell.flicker.slowest_s": (1e-2, FLICKER),
    "cell.drift.compensation": ("reference_read", DRIFT),
    "cell.retention.tau_s": (1e4, {}),
    "cell.retention.stretch": (0.5, RETENTION),
    "cell.retention.level": (0.5, {**RETENTION, "array.mapping": "offset"}),
    "cell.stuck.random": (0.3, {}),
    "cell.iv.law": ("cubic", BENT),
    "cell.iv.v0_v": (0.3, BENT),
    "cell.iv.table": (Table((0.0, 1.0), (0.0, 2.0)), CURVED),
    "array.scaling": ("column", {"cell.levels": 4}),
    "array.clip_percentile": (90.0, {}),
    "array.slices": (2, {"cell.levels": 4}),
    "array.wire_word_ohm": (1.0, {}),
    "array.wire_bit_ohm": (1.0, {}),
    "array.driver_ohm": (100.0, {}),
    "array.sense_ohm": (100.0, {}),
    "array.wire_model": ("ladder", {"array.wire_word_ohm": 100.0, "array.wire_bit_ohm": 100.0}),
    "array.coding": ("pulse_width", BENT),
    "array.read_voltage_v": (1.0, BENT),
}
BOTH = ("forward", "transpose")
OTHER |= {f"{d}.offset_drift": (0.1, {}) for d in BOTH}
OTHER |= {f"{d}.offset_time_s": (1.0, {f"{d}.offset_drift": 0.1}) for d in BOTH}
LINES = {
    "dac_bits": 3, "adc_bits": 3, "input_range": 0.5, "output_range": 0.5, "offset": 0.1,
    "gain": 0.1, "line_noise": 0.1,
}  # fmt: skip
OTHER |= {f"{d}.{k}": (v, {}) for d in BOTH for k, v in LINES.items()}
ELSEWHERE = {
    "node.offset": "Chip.node_force, test_chip.py",
    "clock.pass_s": "Chip.new_pass, test_chip.py",
    "clock.phase_interval_s": "Chip.wait, test_chip.py",
}


@pytest.mark.parametrize("key", sorted(SCHEMA))
def test_every_entry_changes_an_output_or_is_refused(ideal, key):
    if key in ELSEWHERE:
        return
    generator = torch.Generator().manual_seed(0)
    w = torch.randn(8, 9, generator=generator)
    x, d = torch.randn(4, 9, generator=generator), torch.randn(4, 8, generator=generator)
    value, needs = OTHER[key]
    before = ideal.override(needs)
    after = before.override({key: value})
    assert after.get(key) != before.get(key)
    reads = []
    for card in (before, after):
        array = Crossbar(w, card)
        array.time_s = 0.37
        reads.append((array.read(x), array.read_transpose(d)))
    changed = [not torch.equal(a, b) for a, b in zip(*reads, strict=True)]
    if key.startswith("forward."):
        assert changed == [True, False]
    elif key.startswith("transpose."):
        assert changed == [False, True]
    elif key.startswith("cell."):
        assert changed == [True, True]
    else:
        assert any(changed)
