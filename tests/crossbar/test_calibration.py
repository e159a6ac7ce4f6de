"""Calibration of lines and ranges: what it finds, what it leaves, and that it says so."""

import numpy as np
import pytest
import torch

from eptsim.base.errors import InputError
from eptsim.crossbar.crossbar import Crossbar
from eptsim.crossbar.stages import Position

BOTH = ("forward", "transpose")
FULL = 4.0
LINES = {"offset": 0.03, "gain": 0.08, "output_range": FULL}


def randn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def lines(ideal, changes=None, cells=None):
    entry = {**LINES, **(changes or {})}
    values = {f"{d}.{k}": v for d in BOTH for k, v in entry.items()}
    return ideal.override({"array.rows": 5, "array.columns": 4, **values, **(cells or {})})


def read(array, direction, x, **how):
    method = array.read if direction == "forward" else array.read_transpose
    return method(x, range_policy="fixed", **how)


def many(ideal, changes, seed=0, fused=None):
    """An array with 4000 lines of one cell each, all in one tile."""
    card = lines(ideal, changes, {"array.rows": None, "array.columns": None})
    return Crossbar(torch.ones(4000, 1, dtype=torch.float64), card, seed, fused=fused)


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("direction", BOTH)
@pytest.mark.parametrize("scaling", ["array", "tile", "column"])
def test_quiet_ideal_converters_are_corrected_to_rounding(ideal, scaling, direction, fused):
    w = 0.2 * randn(11, 13)
    cells = {"array.scaling": scaling, "cell.levels": 5, "array.slices": 2}
    array = Crossbar(w, lines(ideal, None, cells), seed=3, fused=fused)
    x = 0.1 * randn(6, 13 if direction == "forward" else 11, seed=1)
    stored = array.weight()
    want = x @ (stored.T if direction == "forward" else stored)
    assert (read(array, direction, x) - want).abs().max() > 0.01
    found = array.calibrate(direction, 1)
    torch.testing.assert_close(read(array, direction, x), want, rtol=1e-12, atol=1e-13)
    stage = array.stage(direction)
    assert found.offset_before == pytest.approx(stage.offset.square().mean().sqrt() / FULL)
    assert found.gain_before == pytest.approx((stage.gain - 1).square().mean().sqrt())
    assert found.offset_after < 1e-15
    assert found.gain_after < 1e-15
    assert (found.reads, found.uncorrected) == (1, 0)


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("reads", [1, 16, 256])
def test_what_is_left_is_the_mean_of_the_noise(ideal, reads, fused):
    """sigma / sqrt(reads) of 4000 lines: standard error of an rms 1 / sqrt(2 x 4000).

    The noise passes through the gain, so its mean square is 1 + gain^2 of that; a gain is the
    difference of two means over 2 AMPLITUDE, half the full scale each.
    """
    noise = 0.002
    array = many(ideal, {"line_noise": noise}, fused=fused)
    found = array.calibrate("forward", reads)
    tolerance = 4.5 / 8000**0.5
    offset = noise / reads**0.5 * (1 + 0.08**2) ** 0.5
    assert found.offset_after == pytest.approx(offset, rel=tolerance)
    gain = noise / reads**0.5 * 2**0.5 / (2 * 0.5)  # relative to the gain itself
    assert found.gain_after == pytest.approx(gain, rel=tolerance + 2 * gain)
    assert found.reads == reads


def test_what_is_left_stops_at_the_step_of_the_adc(ideal):
    """Without noise every read shows the same code, half a step off at worst, however many."""
    bits, step = 6, 1 / 31
    left = {}
    for reads in (1, 400):
        array = many(ideal, {"adc_bits": bits})
        left[reads] = array.calibrate("forward", reads)
        error = array.stage("forward").offset - array._corrections["forward"].offset
        assert error.abs().max() <= 0.5 * step * FULL * (1 + 1e-9)
    assert left[1].offset_after == left[400].offset_after
    assert 0.5 * step / 3**0.5 * 0.9 < left[1].offset_after < 0.5 * step
    noisy = many(ideal, {"adc_bits": bits, "line_noise": 2 * step}).calibrate("forward", 400)
    # noise of two steps dithers: the mean finds the offset below the step
    want = (4 + 1 / 12) ** 0.5 * step / 20
    assert noisy.offset_after == pytest.approx(want, rel=0.1)
    assert noisy.offset_after < 0.5 * left[1].offset_after


def test_the_report_is_what_the_reads_show(ideal):
    array = many(ideal, {"line_noise": 0.001, "adc_bits": 12})
    found = array.calibrate("forward", 64)
    n = 2000
    y = read(array, "forward", torch.zeros(n, 1, dtype=torch.float64))
    shown = float(y.mean(dim=0).square().mean().sqrt()) / FULL
    noise = 0.001 / n**0.5
    assert shown == pytest.approx((found.offset_after**2 + noise**2) ** 0.5, rel=0.05)
    driven = read(array, "forward", torch.ones(n, 1, dtype=torch.float64))
    error = float((driven.mean(dim=0) - y.mean(dim=0) - 1).square().mean().sqrt())
    noise = 0.001 * FULL * (2 / n) ** 0.5
    assert error == pytest.approx((found.gain_after**2 + noise**2) ** 0.5, rel=0.05)


@pytest.mark.parametrize("fused", [True, False])
def test_a_line_reference_replaces_the_offset_and_keeps_the_gain(ideal, fused):
    w, d = 0.2 * randn(11, 13), 0.1 * randn(6, 11, seed=1)
    array = Crossbar(w, lines(ideal), fused=fused)
    array.calibrate("transpose", 1)
    reference = array.zero_reference("transpose", 1)
    torch.testing.assert_close(reference, array.stage("transpose").offset)  # not corrected itself
    got = read(array, "transpose", d, reference=reference)
    torch.testing.assert_close(got, d @ w, rtol=1e-12, atol=1e-13)
    torch.testing.assert_close(read(array, "transpose", d), d @ w, rtol=1e-12, atol=1e-13)


def test_directions_are_calibrated_and_dropped_on_their_own(ideal):
    w, x, d = 0.2 * randn(11, 13), 0.1 * randn(6, 13, seed=1), 0.1 * randn(6, 11, seed=2)
    array = Crossbar(w, lines(ideal))
    before = read(array, "forward", x), read(array, "transpose", d)
    array.calibrate("forward", 1)
    assert torch.equal(read(array, "transpose", d), before[1])
    torch.testing.assert_close(read(array, "forward", x), x @ w.T, rtol=1e-12, atol=1e-13)
    array.calibrate("transpose", 1)
    array.drop_calibration("forward")
    assert torch.equal(read(array, "forward", x), before[0])
    torch.testing.assert_close(read(array, "transpose", d), d @ w, rtol=1e-12, atol=1e-13)
    array.drop_calibration("transpose")
    array.drop_calibration("transpose")  # none left to drop
    assert torch.equal(read(array, "transpose", d), before[1])


def test_calibrating_again_starts_from_the_raw_line(ideal):
    array = many(ideal, {"line_noise": 0.01})
    first, second = (array.calibrate("forward", 100) for _ in range(2))
    assert second.offset_before == first.offset_before
    assert second.offset_after == pytest.approx(first.offset_after, rel=0.1)
    assert second.offset_after != first.offset_after  # of other reads


def test_a_calibration_takes_its_reads_from_the_stream(ideal):
    """3 x reads rows: what is read next is what would be read after so many vectors."""
    changes = {"line_noise": 0.01}
    array, other = many(ideal, changes), many(ideal, changes)
    array.calibrate("forward", 7)
    other.read(torch.zeros(21, 1, dtype=torch.float64))
    assert torch.equal(array.zero_reference("forward", 3), other.zero_reference("forward", 3))


def test_a_calibration_goes_stale_with_the_wander(ideal):
    """The offset of the moment is corrected; dt later sigma^2 2 (1 - exp(-dt / tau)) is back."""
    changes = {"offset_drift": 0.02, "offset_time_s": 1e-3}
    array = many(ideal, changes)
    array.time_s = 0.5
    found = array.calibrate("forward", 1)
    assert found.offset_before == pytest.approx((0.03**2 + 0.02**2) ** 0.5, rel=0.05)
    assert found.offset_after < 1e-15
    silent = torch.zeros(1, dtype=torch.float64)
    for lag in (0.0, 0.5, 30.0):
        y = read(array, "forward", silent, position=Position(0, 0, 0.5 + lag * 1e-3))
        y = y * array._corrections["forward"].gain[0]
        want = (0.02 * FULL) ** 2 * 2 * -np.expm1(-lag)
        assert float(y.square().mean()) == pytest.approx(
            want, rel=4.5 * (2 / 4000) ** 0.5, abs=1e-24
        )


def test_dead_lines_are_left_alone_and_counted(ideal):
    array = many(ideal, {"gain": 1.0, "offset": 0.0})
    found = array.calibrate("forward", 1)
    gain = array.stage("forward").gain[0]
    dead = (gain < 0.1) | (gain >= 2)  # beyond, the known current is out of the line's range
    assert found.uncorrected == int(dead.sum()) > 100
    assert int((gain >= 2).sum()) > 100
    kept = array._corrections["forward"].gain[0]
    assert (kept[dead] == 1).all()
    torch.testing.assert_close(kept[~dead], gain[~dead])


def test_an_ideal_array_has_nothing_to_correct(ideal):
    w, x = randn(4, 5), randn(3, 5, seed=1)
    array = Crossbar(w, ideal)
    found = array.calibrate("forward", 2)
    assert (found.offset_before, found.offset_after, found.gain_after) == (0.0, 0.0, 0.0)
    torch.testing.assert_close(array.read(x), x @ w.T)


# ranges


def test_the_range_is_the_percentile_of_the_magnitudes(ideal):
    array = Crossbar(randn(4, 5), lines(ideal, {"dac_bits": 8}))
    x = torch.arange(1.0, 101.0, dtype=torch.float64).reshape(20, 5)
    x[::2] *= -1
    for percentile, held in ((100.0, 100.0), (100, 100.0), (95.0, 95.0), (94.5, 95.0), (1e-9, 1.0)):
        found = array.calibrate_range("forward", x, percentile)
        assert found.held_range == array.held_range("forward") == held
        assert found.clipped_inputs == pytest.approx((100 - held) / 100)
    assert array.held_range("transpose") is None
    array.calibrate_range("forward", x.reshape(2, 10, 5))
    assert array.held_range("forward") == 100.0


def test_zeros_are_held_at_range_one(ideal):
    array = Crossbar(randn(4, 5), lines(ideal))
    assert array.calibrate_range("forward", torch.zeros(3, 5).double()).held_range == 1.0
    sparse = torch.zeros(3, 5, dtype=torch.float64)
    sparse[0, 0] = 7.0
    found = array.calibrate_range("forward", sparse, 50.0)  # most are zero: the largest
    assert (found.held_range, found.clipped_inputs) == (7.0, 0.0)


@pytest.mark.parametrize("direction", BOTH)
def test_clipped_inputs_and_sums_are_counted(ideal, direction):
    card = lines(ideal, {"output_range": 1.0, "input_range": 1.5})
    w = randn(11, 13)
    array = Crossbar(w, card)
    x = randn(40, 13 if direction == "forward" else 11, seed=1)
    found = array.calibrate_range(direction, x, 99.0)
    used = min(found.held_range, 1.5)
    assert found.held_range > 1.5
    assert found.clipped_inputs == float((x.abs() > used).double().mean())
    u = (x / used).clamp(-1, 1)
    stored = w / w.abs().max()
    matrix, step = (stored.T, 5) if direction == "forward" else (stored, 4)
    tiles = [slice(i, i + step) for i in range(0, len(matrix), step)]
    sums = torch.stack([u[:, tile] @ matrix[tile] for tile in tiles])
    assert found.clipped_sums == pytest.approx(float((sums.abs() > 1.0).double().mean()))
    assert 0 < found.clipped_sums < 0.5
    free = Crossbar(w, lines(ideal, {"output_range": None}))
    assert free.calibrate_range(direction, x).clipped_sums == 0.0


@pytest.mark.parametrize("law", ["sinh", "cubic"])
def test_clipped_sums_are_those_of_bent_currents(ideal, law):
    """Cells that bend pass less at half the read voltage, so fewer sums leave the range."""
    bent = {"cell.iv.law": law, "cell.iv.v0_v": 0.03, "array.coding": "amplitude"}
    w, x = randn(11, 13), randn(40, 13, seed=1)
    straight, array = (Crossbar(w, lines(ideal, {"output_range": 0.5}, c)) for c in ({}, bent))
    found = array.calibrate_range("forward", x, 90.0)
    free = Crossbar(w, ideal.override({"forward.output_range": 1e6, "array.rows": 5, **bent}))
    beyond = 0
    for i in (0, 5, 10):  # one tile at a time: what its partial sum is
        alone = torch.zeros_like(x)
        alone[:, i : i + 5] = x[:, i : i + 5]
        free.hold_range("forward", found.held_range)
        sums = free.read(alone, range_policy="held") / found.held_range / w.abs().max()
        beyond += int((sums.abs() > 0.5).sum())
    assert found.clipped_sums == beyond / (3 * 40 * 11)
    assert 0 < found.clipped_sums < straight.calibrate_range("forward", x, 90.0).clipped_sums


def test_column_scales_are_in_the_range_of_a_transposed_read(ideal):
    """What is driven is the input times the scale of its line: that is what has to fit."""
    w = torch.diag(torch.tensor([1.0, 0.1])).double()
    array = Crossbar(w, lines(ideal, {"dac_bits": 8}, {"array.scaling": "column"}))
    d = torch.tensor([[0.5, 4.0]], dtype=torch.float64)
    assert array.calibrate_range("transpose", d).held_range == pytest.approx(0.5)
    assert array.calibrate_range("forward", d).held_range == 4.0


BAD = {
    "percentile 0": {"percentile": 0.0},
    "percentile beyond": {"percentile": 100.1},
    "percentile nan": {"percentile": float("nan")},
    "percentile text": {"percentile": "99"},
    "percentile flag": {"percentile": True},
    "no vectors": {"vectors": torch.zeros(0, 5, dtype=torch.float64)},
    "nan": {"vectors": torch.full((2, 5), torch.nan, dtype=torch.float64)},
    "infinity": {"vectors": torch.full((2, 5), torch.inf, dtype=torch.float64)},
    "width": {"vectors": torch.zeros(2, 4, dtype=torch.float64)},
    "dtype": {"vectors": torch.zeros(2, 5)},
    "list": {"vectors": [[1.0] * 5]},
    "direction": {"direction": "sideways"},
}


@pytest.mark.parametrize("case", BAD)
def test_bad_range_calibrations_are_refused(ideal, case):
    array = Crossbar(randn(4, 5), lines(ideal))
    good = {"direction": "forward", "vectors": torch.ones(2, 5, dtype=torch.float64)}
    with pytest.raises(InputError, match="found"):
        array.calibrate_range(**{**good, **BAD[case]})
    assert array.held_range("forward") is None


@pytest.mark.parametrize("reads", [0, -1, 1.5, "3", None, True])
def test_bad_line_calibrations_are_refused(ideal, reads):
    array = Crossbar(randn(4, 5), lines(ideal))
    with pytest.raises(InputError, match="reads: found"):
        array.calibrate("forward", reads)
    for call in (array.drop_calibration, lambda name: array.calibrate(name, 1)):
        with pytest.raises(InputError, match="direction"):
            call("sideways")
