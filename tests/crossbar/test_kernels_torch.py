"""Drive and sense as plain formulas, value by value."""

import dataclasses

import pytest
import torch

from eptsim.base.streams import Stream
from eptsim.crossbar.kernels_torch import drive, sense
from eptsim.crossbar.stages import Position, line_stage, smallest_range

T, AT, STREAM = torch.tensor, Position(0, 0), Stream.of(0, "x")


def make(card, changes, lines=3, dtype=torch.float64):
    made = card.override({f"forward.{k}": v for k, v in changes.items()})
    return line_stage(made, "forward", 0, "a", (1, lines), dtype, torch.device("cpu"))


def test_dac_grid(ideal):
    """Three bits: the codes are -3 .. 3, over the largest input of the vector."""
    x = torch.linspace(-2, 2, 41, dtype=torch.float64)[None]
    u, r = drive(x, make(ideal, {"dac_bits": 3}), None)
    assert r.tolist() == [2.0]
    torch.testing.assert_close(torch.unique(u), torch.arange(-3, 4, dtype=torch.float64) / 3)
    assert (u - x / 2).abs().max() <= 1 / 6 + 1e-12


def test_each_vector_has_its_own_range_and_zero_has_one(ideal):
    x = T([[1e-3, -2e-3], [5.0, 1.0], [0.0, 0.0]], dtype=torch.float64)
    u, r = drive(x, make(ideal, {}), None)
    assert r.tolist() == [2e-3, 5.0, 1.0]
    torch.testing.assert_close(u, T([[0.5, -1.0], [1.0, 0.2], [0.0, 0.0]], dtype=torch.float64))


@pytest.mark.parametrize("bits", [None, 8])
def test_the_input_range_limits_and_clips(ideal, bits):
    x = T([[4.0, -1.0], [0.5, 0.25], [0.0, 0.0]], dtype=torch.float64)
    u, r = drive(x, make(ideal, {"input_range": 0.8, "dac_bits": bits}), None)
    assert r.tolist() == [0.8, 0.5, 0.8]
    assert u[0].tolist() == [1.0, -1.0]
    assert u[2].tolist() == [0.0, 0.0]


def test_a_held_range_clips_only_with_a_converter(ideal):
    x = T([[4.0, -1.0]], dtype=torch.float64)
    u, _ = drive(x, make(ideal, {}), 2.0)
    assert u.tolist() == [[2.0, -0.5]]
    u, _ = drive(x, make(ideal, {"dac_bits": 8}), 2.0)
    torch.testing.assert_close(u, T([[1.0, round(-0.5 * 127) / 127]], dtype=torch.float64))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_no_vector_is_driven_below_the_smallest_range(ideal, dtype):
    x = torch.full((1, 2), torch.finfo(dtype).tiny / 8, dtype=dtype)
    for bits in (None, 24):
        u, r = drive(x, make(ideal, {"dac_bits": bits}, dtype=dtype), None)
        assert r.item() == smallest_range(dtype)
        assert torch.isfinite(u).all()


def test_adc_grid_and_clip(ideal):
    stage = make(ideal, {"adc_bits": 3, "output_range": 1.5}, lines=61)
    v = torch.linspace(-3, 3, 61, dtype=torch.float64)[None]
    got = sense(v, stage, 0, stage.offset, None, None, STREAM, AT)
    torch.testing.assert_close(torch.unique(got), torch.arange(-3, 4, dtype=torch.float64) / 2)
    assert (got - v.clamp(-1.5, 1.5)).abs().max() <= 0.25 + 1e-12


def test_rails_clip_without_an_adc(ideal):
    stage = make(ideal, {"output_range": 1.5})
    v = T([[1.0, 2.0, -7.0]], dtype=torch.float64)
    assert sense(v, stage, 0, stage.offset, None, None, STREAM, AT).tolist() == [[1.0, 1.5, -1.5]]
    free = make(ideal, {"gain": 1e-9})
    torch.testing.assert_close(sense(v, free, 0, free.offset, None, None, STREAM, AT), v)


def test_order_of_the_stages(ideal):
    """Noise, gain, offset, ADC, reference: (2 + noise) * 3 + 1 is cut at 12, then less 5."""
    stage = make(ideal, {"line_noise": 0.1, "output_range": 12.0}, lines=1)
    one = torch.ones(1, 1, dtype=torch.float64)
    stage = dataclasses.replace(stage, gain=3 * one, offset=one)
    normal = Stream.of(0, "x").normal(1, 1)[0, 0]
    for v, cut in ((0.0, False), (5.0, True)):
        got = sense(v * one, stage, 0, stage.offset, None, 5 * one, STREAM, AT).item()
        want = 12.0 if cut else (v + 1.2 * normal) * 3 + 1
        assert got == pytest.approx(want - 5, abs=1e-5)
    two = T([[2.0]], dtype=torch.float64)
    extra = sense(0 * one, stage, 0, stage.offset, two, None, STREAM, AT).item()
    assert extra == pytest.approx(3 * (1.44 + 2.0) ** 0.5 * normal + 1, abs=1e-5)
