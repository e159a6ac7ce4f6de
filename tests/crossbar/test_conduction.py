"""Tiles cut out, solved on their own, and put back; the reference column at their far end."""

import numpy as np
import pytest
import torch

from eptsim.crossbar.conduction import Wires, attenuation, seen_through
from eptsim.crossbar.scaling import Tiling
from eptsim.crossbar.tiles import cut
from eptsim.crossbar.wire_ladder import ladder_conductance
from eptsim.crossbar.wires import effective_conductance

WIRES = Wires(100.0, 60.0, 300.0, 200.0, exact=True)
OHMS = (100.0, 60.0)
ENDS = {"driver_ohm": 300.0, "sense_ohm": 200.0}
TILING = Tiling(cut(11, 4), cut(13, 5))
DEVICES = torch.rand(2, 3, 11, 13, generator=torch.Generator().manual_seed(0)).double() * 2e-5
REFERENCE = torch.rand(3, 3, 13, generator=torch.Generator().manual_seed(1)).double() * 2e-5


def test_the_wires_of_a_card(ideal):
    assert Wires.of(ideal.array) is None
    for key in ("wire_word_ohm", "wire_bit_ohm", "driver_ohm", "sense_ohm"):
        assert Wires.of(ideal.override({f"array.{key}": 0.0}).array) is None
        wires = Wires.of(ideal.override({f"array.{key}": 2.0}).array)
        assert getattr(wires, key.removeprefix("wire_")) == 2.0
        assert wires.exact
    ladder = ideal.override({"array.sense_ohm": 2.0, "array.wire_model": "ladder"})
    assert not Wires.of(ladder.array).exact


@pytest.mark.parametrize("exact", [True, False])
def test_each_tile_of_each_device_and_slice_is_a_circuit_of_its_own(exact):
    solve = effective_conductance if exact else ladder_conductance
    got, none = seen_through(WIRES, DEVICES, None, TILING, exact)
    assert none is None
    for device, k in np.ndindex(2, 3):
        for out in TILING.out:
            for inner in TILING.inner:
                g = DEVICES[device, k, out, inner].T.contiguous()  # words x bits
                want = solve(g, *OHMS, **ENDS).T
                torch.testing.assert_close(got[device, k, out, inner], want, rtol=1e-12, atol=0)


@pytest.mark.parametrize("exact", [True, False])
def test_a_reference_column_is_the_last_bit_line_of_its_tile(exact):
    solve = effective_conductance if exact else ladder_conductance
    one = DEVICES[:1]
    got, reference = seen_through(WIRES, one, REFERENCE, TILING, exact)
    assert reference.shape == REFERENCE.shape
    for k in range(3):
        for tile, out in enumerate(TILING.out):
            for inner in TILING.inner:
                g = torch.cat([one[0, k, out, inner], REFERENCE[k, tile, None, inner]])
                want = solve(g.T.contiguous(), *OHMS, **ENDS).T
                torch.testing.assert_close(got[0, k, out, inner], want[:-1], rtol=1e-12, atol=0)
                torch.testing.assert_close(
                    reference[k, tile, inner], want[-1], rtol=1e-12, atol=0
                )


def test_what_is_given_is_left_alone():
    devices, reference = DEVICES[:1].clone(), REFERENCE.clone()
    seen_through(WIRES, devices, reference, TILING, exact=True)
    attenuation(WIRES, devices, reference, TILING, 1e-6)
    assert torch.equal(devices, DEVICES[:1])
    assert torch.equal(reference, REFERENCE)


def test_a_larger_tile_loses_more():
    whole = Tiling([slice(0, 11)], [slice(0, 13)])
    large, _ = seen_through(WIRES, DEVICES, None, whole, exact=True)
    small, _ = seen_through(WIRES, DEVICES, None, TILING, exact=True)
    assert (large.sum(dim=(2, 3)) < small.sum(dim=(2, 3))).all()
    assert (small.sum(dim=(2, 3)) < DEVICES.sum(dim=(2, 3))).all()


def test_attenuation_is_the_factor_of_the_ladder():
    part, reference = attenuation(WIRES, DEVICES[:1], REFERENCE, TILING, 1e-12)
    seen, seen_reference = seen_through(WIRES, DEVICES[:1], REFERENCE, TILING, exact=False)
    torch.testing.assert_close(part * DEVICES[:1], seen, rtol=1e-12, atol=0)
    torch.testing.assert_close(reference * REFERENCE, seen_reference, rtol=1e-12, atol=0)
    assert (part < 1).all()


def test_attenuation_of_a_cell_that_conducts_nothing():
    """It is that of its place: the limit of a cell that conducts less and less."""
    dark = DEVICES.clone()
    dark[0, 0, 2, 3] = 0.0
    part, none = attenuation(WIRES, dark, None, TILING, 1e-11)
    assert none is None
    dark[0, 0, 2, 3] = 1e-10
    near, _ = attenuation(WIRES, dark, None, TILING, 1e-11)
    torch.testing.assert_close(part, near, rtol=1e-5, atol=0)
    assert 0.5 < part[0, 0, 2, 3] < 1
