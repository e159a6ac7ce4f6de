"""Converter grids and the frozen lines of one direction."""

import pytest
import torch
from scipy import stats

from eptsim.base.errors import CardError, InputError
from eptsim.cards.array_entries import DEFAULT_FULL_SCALE
from eptsim.crossbar.crossbar import Crossbar
from eptsim.crossbar.stages import (
    line_stage,
    smallest_range,
)

CPU, DOUBLE = torch.device("cpu"), torch.float64


def stage(card, direction="forward", seed=0, path="a", shape=(4, 5000), dtype=DOUBLE):
    return line_stage(card, direction, seed, path, shape, dtype, CPU)


@pytest.mark.parametrize(("bits", "steps"), [(1, 1), (2, 1), (3, 3), (8, 127), (24, 8388607)])
def test_codes_per_polarity(ideal, bits, steps):
    card = ideal.override({"forward.dac_bits": bits, "transpose.adc_bits": bits})
    assert (stage(card).dac_steps, stage(card).adc_steps) == (steps, None)
    assert stage(card, "transpose").adc_steps == steps


@pytest.mark.parametrize("full", [None, 0.5, 30.0])
@pytest.mark.parametrize("what", ["offset", "gain"])
def test_spread_of_the_lines(ideal, what, full):
    """Standard deviation: an offset in fractions of output_range, a gain error relative."""
    got = stage(ideal.override({f"forward.{what}": 0.02, "forward.output_range": full}))
    sigma = 0.02 * (full or DEFAULT_FULL_SCALE) if what == "offset" else 0.02
    values = (got.offset if what == "offset" else got.gain - 1.0).numpy()
    n = values.size
    assert abs(values.mean()) < 4 * sigma / n**0.5
    assert abs(values.std() - sigma) < 4 * sigma / (2 * n) ** 0.5
    assert stats.kstest(values.ravel() / sigma, "norm").pvalue > 1e-4
    other = got.gain if what == "offset" else got.offset
    assert len(torch.unique(other)) == 1


def test_lines_differ_by_tile_direction_seed_path_and_flaw(ideal):
    both = ("forward", "transpose")
    card = ideal.override({f"{d}.{k}": 0.1 for d in both for k in ("offset", "gain")})
    base = stage(card)
    n = base.offset[0].numel()
    others = [
        base.offset[1], base.offset[3], base.gain[0], stage(card, "transpose").offset[0],
        stage(card, seed=1).offset[0], stage(card, path="b").offset[0],
    ]  # fmt: skip
    for other in others:
        assert abs(torch.corrcoef(torch.stack([base.offset[0], other]))[0, 1]) < 4.5 / n**0.5
    assert torch.equal(stage(card).offset, base.offset)


def test_the_draws_of_a_line_do_not_depend_on_the_width(ideal):
    card = ideal.override({"forward.offset": 0.1})
    wide, narrow = stage(card, shape=(2, 64)), stage(card, shape=(2, 64), dtype=torch.float32)
    torch.testing.assert_close(wide.offset.float(), narrow.offset)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("dac_bits", 8), ("adc_bits", 8), ("input_range", 1.0), ("output_range", 1.0),
        ("offset", 0.1), ("gain", 0.1), ("line_noise", 0.1),
    ],
)  # fmt: skip
def test_only_the_bare_matmul_is_exact(ideal, key, value):
    card = ideal.override({f"forward.{key}": value})
    assert stage(ideal).exact
    assert not stage(card).exact
    assert stage(card, "transpose").exact
    assert stage(card).noisy == (key == "line_noise")


def test_cell_noise_makes_both_directions_noisy(ideal):
    card = ideal.override({"cell.read_noise.law": "constant", "cell.read_noise.sigma": 0.1})
    assert all(stage(card, d).noisy and not stage(card, d).exact for d in ("forward", "transpose"))


def test_offsets_and_gains_are_frozen_over_reads(ideal):
    card = ideal.override({"forward.offset": 0.02, "forward.gain": 0.1})
    w, x = torch.randn(8, 6, dtype=DOUBLE), torch.randn(50, 6, dtype=DOUBLE)
    array = Crossbar(w, card, range_policy="fixed")
    frozen = array.stage("forward")
    scale = w.abs().max()
    want = x @ w.T * frozen.gain[0] + frozen.offset[0] * scale
    for _ in range(2):
        torch.testing.assert_close(array.read(x), want)


def test_ranges_that_would_overflow_are_refused(ideal):
    with pytest.raises(CardError, match=r"forward\.output_range: found 1e-20"):
        stage(ideal.override({"forward.output_range": 1e-20}))
    tiny = ideal.override({"transpose.input_range": 1e-35})
    with pytest.raises(CardError, match=r"transpose\.input_range: found 1e-35"):
        stage(tiny, "transpose", dtype=torch.float32)
    assert stage(tiny, "transpose").input_limit == 1e-35


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_smallest_range_does_not_overflow(dtype):
    least = torch.tensor(smallest_range(dtype), dtype=dtype)
    assert torch.isfinite((2**23 - 1) / least)
    assert least > 0


def test_unknown_direction(ideal):
    with pytest.raises(InputError, match="direction: found 'up'"):
        stage(ideal, "up")
