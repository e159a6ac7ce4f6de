"""Plans of reads: which digital factor, bend and correction each direction gets."""

import numpy as np
import pytest
import torch

from eptsim.base.table import Table
from eptsim.crossbar.crossbar import Crossbar

BOTH = ("forward", "transpose")
LINES = {f"{d}.gain": 0.1 for d in BOTH}
TILES = {"array.rows": 4, "array.columns": 5}
W = torch.randn(6, 9, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
X = torch.linspace(-1, 1, 9, dtype=torch.float64)
D = torch.linspace(-1, 1, 6, dtype=torch.float64)
CURVE = Table((0.0, 0.05, 0.12, 0.3), (0.0, 0.02, 0.1, 0.9))
TOP = 0.2  # array.read_voltage_v


def plans(ideal, changes, fused=None):
    array = Crossbar(W, ideal.override({**TILES, **LINES, **changes}), fused=fused)
    return array, array._plans["forward"], array._plans["transpose"]


def test_one_scale_for_all_needs_no_factor(ideal):
    _, forward, transposed = plans(ideal, {})
    assert (forward.factor, transposed.factor) == (None, None)
    assert (forward.input_scale, transposed.input_scale) == (None, None)
    assert forward.scale == transposed.scale == W.abs().max()
    assert forward.largest == pytest.approx(1.0)


def test_tile_scales_are_factors_of_partial_sums(ideal):
    _, forward, transposed = plans(ideal, {"array.scaling": "tile"})
    top = W.abs().max()
    for n, inner in enumerate((slice(0, 4), slice(4, 8), slice(8, 9))):
        for m, out in enumerate((slice(0, 5), slice(5, 6))):
            want = W[out, inner].abs().max() / top
            torch.testing.assert_close(forward.factor[n, out], want.expand(out.stop - out.start))
            torch.testing.assert_close(
                transposed.factor[m, inner], want.expand(inner.stop - inner.start)
            )


def test_column_scales_are_factors_of_outputs_or_inputs(ideal):
    _, forward, transposed = plans(ideal, {"array.scaling": "column"})
    want = W.abs().amax(dim=1) / W.abs().max()
    torch.testing.assert_close(forward.factor, want.expand(3, -1))
    assert forward.input_scale is None
    assert transposed.factor is None
    torch.testing.assert_close(transposed.input_scale, want)


@pytest.mark.parametrize("scaling", ["array", "tile", "column"])
def test_digits_count_in_the_factors(ideal, scaling):
    changes = {"array.scaling": scaling, "cell.levels": 4}
    _, *plain = plans(ideal, changes)
    _, *sliced = plans(ideal, {**changes, "array.slices": 2})
    for one, two in zip(plain, sliced, strict=True):
        base = torch.ones_like(one.stage.offset) if one.factor is None else one.factor
        torch.testing.assert_close(two.factor, torch.cat([base * 0.8, base * 0.2]))


def test_a_bare_matmul_is_digitally_combined(ideal):
    changes = {"array.scaling": "column", "cell.levels": 4, "array.slices": 2}
    array = Crossbar(W, ideal.override({**TILES, **changes}))
    for direction in BOTH:
        plan = array._plans[direction]
        assert (plan.factor, plan.input_scale, plan.scale) == (None, None, 1.0)
        assert plan.stored.shape == (1, 6, 9)
    torch.testing.assert_close(array._plans["forward"].stored[0], array.weight())


def test_a_calibration_divides_the_factors(ideal):
    array, forward, _ = plans(ideal, {"array.scaling": "tile"})
    array.calibrate("forward", 1)
    after = array._plans["forward"]
    torch.testing.assert_close(after.factor, forward.factor / forward.stage.gain)
    torch.testing.assert_close(after.correction, forward.stage.offset)
    assert array._plans["transpose"].correction is None
    array.drop_calibration("forward")
    assert torch.equal(array._plans["forward"].factor, forward.factor)
    assert array._plans["forward"].correction is None


def test_drift_compensation_is_in_the_scale(ideal):
    changes = {"cell.drift.nu": 0.05, "cell.drift.compensation": "reference_read"}
    array, forward, transposed = plans(ideal, changes)
    factor = array.record.drift_factor
    assert factor > 1.2
    assert forward.scale == transposed.scale == pytest.approx(float(W.abs().max()) * factor)


# bent current-voltage curves


def bent(u, law, v0):
    """f(u V) / f(V), written out."""
    f = {
        "sinh": lambda v: v0 * np.sinh(v / v0),
        "cubic": lambda v: v * (1 + (v / v0) ** 2),
        "table": lambda v: np.sign(v) * np.interp(np.abs(v), CURVE.x, CURVE.y),
    }[law]
    return f(u * TOP) / f(TOP)


def law_of(law, v0):
    changes = {"cell.iv.law": law}
    return changes | ({"cell.iv.table": CURVE} if law == "table" else {"cell.iv.v0_v": v0})


LAWS = [("sinh", 0.02), ("sinh", 0.1), ("sinh", 1e3), ("cubic", 0.05), ("cubic", 0.4), ("table", 0)]


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize(("law", "v0"), LAWS)
def test_amplitudes_are_bent(ideal, law, v0, fused):
    changes = {**law_of(law, v0), "array.coding": "amplitude", **dict.fromkeys(LINES, 0.0)}
    array, *_ = plans(ideal, changes, fused)
    x, d = X.numpy(), D.numpy()
    want = W.numpy() @ bent(x, law, v0), bent(d, law, v0) @ W.numpy()
    np.testing.assert_allclose(array.read(X), want[0], rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(array.read_transpose(D), want[1], rtol=1e-11, atol=1e-12)
    # per vector, the range leaves the shape of the drive alone
    np.testing.assert_allclose(array.read(3 * X), 3 * want[0], rtol=1e-11, atol=1e-12)
    if v0 < 1:
        assert np.abs(want[0] - W.numpy() @ x).max() > 0.02


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("law", "v0"), LAWS)
def test_a_full_scale_input_is_exact(ideal, law, v0, dtype, fused):
    """Conductances are defined at the read voltage: -1, 0 and 1 are read as with a straight law."""
    changes = {**TILES, "forward.output_range": 1e6}
    card = ideal.override({**changes, **law_of(law, v0), "array.coding": "amplitude"})
    w = W.to(dtype)
    x = torch.tensor([1.0, -1.0, 0.0, 1.0, 0.0, 0.0, -1.0, 1.0, -1.0], dtype=dtype)
    got = Crossbar(w, card, fused=fused).read(x)
    assert torch.equal(got, Crossbar(w, ideal.override(changes), fused=fused).read(x))


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize(("law", "v0"), LAWS)
def test_pulse_widths_are_exact(ideal, law, v0, fused):
    changes = {**law_of(law, v0), "array.coding": "pulse_width"}
    array, forward, transposed = plans(ideal, changes, fused)
    assert (forward.bend, transposed.bend) == (None, None)
    straight, *_ = plans(ideal, {}, fused)
    assert torch.equal(array.read(X), straight.read(X))
    assert torch.equal(array.read_transpose(D), straight.read_transpose(D))


@pytest.mark.parametrize("fused", [True, False])
def test_a_dac_quantises_before_the_cells_bend(ideal, fused):
    law = {**law_of("cubic", 0.1), "array.coding": "amplitude", "forward.dac_bits": 4}
    array, *_ = plans(ideal, {**law, **dict.fromkeys(LINES, 0.0)}, fused)
    codes = np.round(X.numpy() * 7) / 7
    want = W.numpy() @ bent(codes, "cubic", 0.1)
    np.testing.assert_allclose(array.read(X), want, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("fused", [True, False])
def test_inputs_beyond_a_held_range_are_driven_at_full_scale(ideal, fused):
    law = {**law_of("sinh", 0.1), "array.coding": "amplitude", **dict.fromkeys(LINES, 0.0)}
    array, *_ = plans(ideal, law, fused)
    array.hold_range("forward", 0.5)
    want = 0.5 * W.numpy() @ bent(np.clip(X.numpy() / 0.5, -1, 1), "sinh", 0.1)
    got = array.read(X, range_policy="held")
    np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-12)
