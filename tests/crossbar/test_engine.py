"""The whole read against a numpy read that is written out stage by stage (conftest.py)."""

import numpy as np
import pytest
import torch

from eptsim.base.streams import Stream
from eptsim.crossbar.crossbar import Crossbar
from eptsim.crossbar.engine import zero_reference
from eptsim.crossbar.stages import Position

MAPPINGS = ("differential", "reference_column", "offset")
POLICIES = ("fixed", "per_vector", "held")
PLAIN = {  # one feature at a time, on an otherwise exact read
    "nothing": {},
    "dac": {"dac_bits": 4},
    "adc": {"adc_bits": 5},
    "one-bit converters": {"dac_bits": 1, "adc_bits": 1},
    "rails": {"output_range": 1.5},
    "input limit": {"input_range": 0.8},
    "offset": {"offset": 0.1},
    "gain": {"gain": 0.2},
    "line noise": {"line_noise": 0.1},
}


def vectors(rows, width, dtype=torch.float64, seed=1):
    x = torch.randn(rows, width, generator=torch.Generator().manual_seed(seed), dtype=dtype)
    x[rows // 2] = 0.0
    return x * torch.logspace(-2, 1, rows, dtype=dtype)[:, None]


def read(array, direction, x, policy, position):
    method = array.read if direction == "forward" else array.read_transpose
    return method(x, range_policy=policy, position=position)


def assert_read_by_the_book(array, w, written, policy, fused):
    book = written(array, w.numpy())
    for direction in ("forward", "transpose"):
        x = vectors(37, w.shape[1] if direction == "forward" else w.shape[0])
        array.hold_range(direction, 0.9)
        got = read(array, direction, x, policy, Position(5, 11)).numpy()
        want = book.read(direction, x.numpy(), policy, 0.9, 5, 11)
        if fused:
            np.testing.assert_allclose(got, want, rtol=1e-11, atol=1e-11)
        else:  # torch's normals differ in the last digits, so that a few codes flip
            assert np.mean(np.abs(got - want) > 1e-4 * np.abs(want).max()) < 2e-3


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("mapping", MAPPINGS)
@pytest.mark.parametrize("policy", POLICIES)
def test_every_flaw_at_once(flawed, written, policy, mapping, fused):
    w = vectors(18, 23, seed=2)
    array = Crossbar(w, flawed(mapping), seed=4, path="a", fused=fused)
    assert (array.segments("forward"), array.segments("transpose")) == (4, 4)
    book = written(array, w.numpy())
    np.testing.assert_allclose(array.weight().numpy(), book.stored(), rtol=1e-12, atol=1e-12)
    assert_read_by_the_book(array, w, written, policy, fused)


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("feature", PLAIN)
@pytest.mark.parametrize("policy", POLICIES)
def test_each_feature_alone(ideal, written, policy, feature, fused):
    changes = {f"{d}.{k}": v for d in ("forward", "transpose") for k, v in PLAIN[feature].items()}
    w = vectors(6, 9, seed=3)
    array = Crossbar(w, ideal.override(changes), seed=1, fused=fused)
    assert_read_by_the_book(array, w, written, policy, fused)


@pytest.mark.parametrize("law", ["constant", "proportional"])
@pytest.mark.parametrize("mapping", MAPPINGS)
def test_each_noise_law(flawed, written, mapping, law):
    changes = {"cell.read_noise.law": law, "cell.read_noise.sigma": 0.1}
    changes |= {f"{d}.{k}_bits": None for d in ("forward", "transpose") for k in ("dac", "adc")}
    w = vectors(12, 15, seed=5)
    array = Crossbar(w, flawed(mapping, changes), seed=9)
    assert_read_by_the_book(array, w, written, "per_vector", True)


@pytest.mark.parametrize("fused", [True, False])
def test_zero_reference_is_the_mean_read_without_drive(flawed, fused):
    card = flawed(changes={"transpose.line_noise": 0.02})
    array = Crossbar(vectors(11, 13), card, seed=2, path="z", fused=fused)
    got = array.zero_reference("transpose", 50, Position(3, 7)).numpy()
    stage, full, lsb = array.stage("transpose"), 2.0, 2.0 / 127
    want = np.empty(got.shape)
    for segment in range(3):
        normals = Stream.of(2, "z", "transpose", "read").normal(
            50, 13, first_row=7, read=3, plane=segment
        )
        v = 0.02 * full * normals * stage.gain[segment].numpy() + stage.offset[segment].numpy()
        want[segment] = np.clip(np.round(v / lsb) * lsb, -full, full).mean(axis=0)
    np.testing.assert_allclose(got, want, atol=1e-12 if fused else 1.5 * lsb / 50)


@pytest.mark.parametrize("fused", [True, False])
def test_zero_reference_averages_the_noise_down(ideal, fused):
    card = ideal.override({"forward.line_noise": 0.1, "forward.offset": 0.01})
    array = Crossbar(torch.ones(400, 1), card, fused=fused)
    sigma, offset = 0.1 * 12, array.stage("forward").offset
    for count in (1, 16, 256):
        error = (array.zero_reference("forward", count) - offset).std().item()
        expected = sigma / count**0.5
        assert abs(error - expected) < 4 * expected / (2 * 400) ** 0.5


def test_zero_reference_of_a_quiet_array(ideal):
    array = Crossbar(torch.ones(3, 2), ideal.override({"forward.offset": 0.01}))
    assert torch.equal(array.zero_reference("forward", 5), array.stage("forward").offset)
    plan = array._plans["transpose"]
    assert torch.equal(zero_reference(plan, 5, Position(0, 0)), torch.zeros(1, 2))


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("policy", POLICIES)
def test_a_line_reference_is_subtracted_after_the_adc(flawed, policy, fused):
    """Each segment's reference, in converter units, leaves before the digital rescale."""
    array = Crossbar(vectors(18, 23, seed=2), flawed(), seed=4, fused=fused)
    array.hold_range("transpose", 0.9)
    d, at = vectors(9, 18), Position(1, 0)
    reference = torch.randn(4, 23, dtype=torch.float64)
    without = array.read_transpose(d, range_policy=policy, position=at)
    got = array.read_transpose(d, range_policy=policy, position=at, reference=reference)
    top = d.abs().amax(dim=1, keepdim=True)
    top[top == 0] = 1.0
    r = {"fixed": 1.2, "held": 0.9, "per_vector": top.clamp(max=1.2)}
    scale = vectors(18, 23, seed=2).abs().max()
    want = without - reference.sum(dim=0) * r[policy] * scale
    torch.testing.assert_close(got, want, rtol=1e-10, atol=1e-10)


def test_a_line_reference_of_the_offset_cancels_it(ideal):
    card = ideal.override({"transpose.offset": 0.05})
    w, d = torch.randn(20, 30, dtype=torch.float64), torch.randn(7, 20, dtype=torch.float64)
    array = Crossbar(w, card)
    reference = array.zero_reference("transpose", 1)
    assert (array.read_transpose(d) - d @ w).norm() > 0.1 * (d @ w).norm()
    torch.testing.assert_close(array.read_transpose(d, reference=reference), d @ w)
