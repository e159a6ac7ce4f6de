"""What an array is made of is all in its group; what a later change adds is not forgotten."""

from dataclasses import fields

import h5py
import numpy as np
import pytest
import torch

from eptsim.crossbar.archive import ArrayState, write_array
from eptsim.crossbar.crossbar import Crossbar
from eptsim.crossbar.derived import Content, Derived
from eptsim.crossbar.memory import Memory
from eptsim.crossbar.planning import Correction
from eptsim.crossbar.record import ProgrammingRecord
from eptsim.crossbar.scaling import Scales, Tiling
from eptsim.crossbar.stages import LineStage

W = torch.randn(9, 12, generator=torch.Generator().manual_seed(3))

KNOWN = {
    Memory: "card seed path exact dtype device scales tiling rescale content record derived stored "
    "combined stale",
    Content: "cells reference",
    Derived: "weights noise reference_noise flicker",
    Scales: "scale tile column digits",
    Tiling: "out inner",
    Correction: "offset gain",
    ProgrammingRecord: "error largest_error clipped cells unverified stuck drift_factor",
    LineStage: "dac_steps adc_steps input_limit full_scale railed gain offset line_sigma wander "
    "cell_noise flicker exact",
}
"""Parts of an array as the archive knows them; add to it what it saves, or works out again."""


@pytest.fixture
def group():
    with h5py.File("memory", "w", driver="core", backing_store=False) as file:
        yield file.create_group("array")


@pytest.mark.parametrize("part", KNOWN, ids=lambda part: part.__name__)
def test_the_archive_knows_every_part(part):
    assert [field.name for field in fields(part)] == KNOWN[part].split()


def test_the_state_is_the_whole_crossbar(flawed):
    array = Crossbar(W, flawed())
    made_of = {field.name for field in fields(ArrayState)} | {"shape", "dtype", "device", "plans"}
    assert {name.lstrip("_") for name in vars(array)} == made_of
    again = Crossbar.of_state(array.state())
    assert set(vars(again)) == set(vars(array))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_siemens_and_bits(dtype, flawed, group):
    """Where siemens give the held bits back, as in float32 always, they are held once."""
    array = Crossbar(W.to(dtype), flawed("reference_column"))
    write_array(group, array.state())
    cells = group["conductances"]
    assert cells.dtype == np.float64
    assert np.array_equal(cells[()], array.conductances().cells)
    assert np.array_equal(group["reference_conductances"][()], array.conductances().reference)
    assert group["weights"].dtype == np.dtype(str(dtype).removeprefix("torch."))
    assert ("cells" in group) is bool(group.attrs["cells_held"])
    assert dtype == torch.float64 or "cells" not in group
    held = array.state().memory.content.cells.numpy()
    back = (cells[()] / array.card.cell.g_max_s).astype(held.dtype)
    assert np.array_equal(group["cells"][()] if "cells" in group else back, held)


def test_the_mask_counts_the_stuck_cells(flawed, group):
    changes = {"cell.stuck.low": 0.1, "cell.stuck.high": 0.05, "cell.stuck.random": 0.1,
               "array.slices": 2}  # fmt: skip
    array = Crossbar(W, flawed("differential", changes))
    write_array(group, array.state())
    mask = group["stuck"][()].astype(bool)
    assert mask.shape == (2, 2, 9, 12)
    assert mask.sum() == array.record.stuck
    ends = [array.card.cell.g_min_s, array.card.cell.g_max_s]
    stuck = array.conductances().cells[mask]
    assert np.isclose(stuck[:, None], ends, rtol=1e-6).any(axis=1).sum() > 0.3 * stuck.size
    assert not np.isin(array.conductances().cells[~mask], array.conductances().cells[mask]).all()


def test_the_parts_of_an_ideal_array(ideal, group):
    array = Crossbar(W, ideal)
    write_array(group, array.state())
    assert set(group) == {"conductances", "matrix", "digits", "forward", "transpose"}
    assert not group.attrs["conductances_held"]
    assert np.array_equal(group["matrix"][0], W.numpy())
    scale, g_s = group.attrs["scale"], group["conductances"][()]
    want = (g_s[0, 0] - g_s[1, 0]) / ideal.cell.g_max_s * scale
    np.testing.assert_allclose(want, W.numpy(), atol=1e-6)


def test_scales_and_directions(flawed, group):
    array = Crossbar(W, flawed("offset", {"array.scaling": "tile"}), path="x", seed=5)
    array.calibrate("forward", 4)
    array.hold_range("transpose", 0.5)
    write_array(group, array.state())
    assert group["tile_scale"].shape == (2, 2)
    assert list(group.attrs["out_tile_starts"]) == [0, 5]
    assert list(group.attrs["in_tile_starts"]) == [0, 7]
    assert (group.attrs["path"], group.attrs["seed"]) == ("x", 5)
    forward, transpose = group["forward"], group["transpose"]
    assert forward["offset"].shape == (2, 9) and transpose["offset"].shape == (2, 12)
    assert "gain_correction" in forward and "gain_correction" not in transpose
    assert (forward.attrs["next_row"], transpose.attrs["next_row"]) == (12, 0)
    assert transpose.attrs["held_range"] == 0.5 and "held_range" not in forward.attrs
    assert np.array_equal(forward["offset"][()], array.stage("forward").offset.numpy())
