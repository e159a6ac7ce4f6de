"""A group with anything wrong in it is refused: file, dataset, what was found, what is allowed."""

import shutil

import h5py
import numpy as np
import pytest
import torch

from eptsim.base.errors import CheckpointError
from eptsim.base.sealed import SEAL_LENGTH, append_seal
from eptsim.crossbar.conduction import Wires
from eptsim.crossbar.crossbar import Crossbar
from eptsim.crossbar.derived import Content

W = torch.randn(9, 12, generator=torch.Generator().manual_seed(3))
FULL = {"array.scaling": "column", "array.slices": 2, "cell.levels": 5, "cell.flicker.sigma": 0.01,
        "array.wire_word_ohm": 100.0}  # fmt: skip


@pytest.fixture(scope="module")
def saved(flawed, tmp_path_factory):
    """An array with every dataset there is: float64, wires, slices, calibration, held ranges."""
    path = tmp_path_factory.mktemp("array") / "a.h5"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Wires, "solve", lambda self, g_s, exact: g_s * 0.9)
        array = Crossbar(W.double(), flawed("reference_column", FULL))
    for direction in ("forward", "transpose"):
        array.calibrate(direction, 3)
        array.hold_range(direction, 1.0)
    memory = array.state().memory
    content = memory.content
    # bits that siemens do not give back
    memory.content = Content(content.cells / 3.0 * 3.1, content.reference / 3.0 * 3.1)
    array.save(path)
    return path


def datasets(path) -> list[str]:
    found: list[str] = []
    with h5py.File(path) as file:
        file.visititems(
            lambda name, item: found.append(name) if isinstance(item, h5py.Dataset) else None
        )
    return found


@pytest.fixture
def refused(saved, tmp_path, edited):
    """``refused(change)``: the message for a file that ``change`` was made to."""

    def message(change) -> str:
        path = shutil.copy(saved, tmp_path / "changed.h5")
        with edited(path) as file:
            change(file)
        with pytest.raises(CheckpointError) as caught:
            Crossbar.load(path)
        text = str(caught.value)
        assert text.startswith(str(path)) and "found" in text and "allowed" in text
        return text

    return message


def test_there_is_every_dataset(saved):
    names = {name.removeprefix("array/") for name in datasets(saved)}
    assert names == {
        "conductances", "reference_conductances", "cells", "reference_cells", "stuck", "weights",
        "digits", "column_scale", "noise_variance", "reference_variance", "seen", "seen_reference",
        *(f"{d}/{n}" for d in ("forward", "transpose")
          for n in ("offset", "gain", "offset_correction", "gain_correction")),
    }  # fmt: skip


def test_bits_that_siemens_do_not_give_back(saved):
    loaded, twin = Crossbar.load(saved), Crossbar.load(saved)
    with h5py.File(saved) as file:
        cells, g_s = file["array/cells"][()], file["array/conductances"][()]
    assert np.array_equal(loaded.state().memory.content.cells.numpy(), cells)
    assert not np.array_equal(g_s / loaded.card.cell.g_max_s, cells)
    assert torch.equal(loaded.read(torch.ones(12).double()), twin.read(torch.ones(12).double()))


def test_each_dataset_deleted_in_turn(saved, refused):
    for name in datasets(saved):
        text = refused(lambda file, name=name: file.__delitem__(name))
        assert f"/{name}: found nothing" in text


def test_each_dataset_without_units(saved, refused):
    for name in datasets(saved):
        text = refused(lambda file, name=name: file[name].attrs.__delitem__("units"))
        assert f"/{name}: found units nothing" in text


@pytest.mark.parametrize("kind", ["shape", "dtype", "group"])
def test_each_dataset_of_another_form(kind, saved, refused):
    def change(file, name):
        dataset = file[name]
        data, units = dataset[()], dataset.attrs["units"]
        del file[name]
        if kind == "group":
            file.create_group(name)
            return
        data = data[..., :-1] if kind == "shape" else data.astype(np.float16)
        file.create_dataset(name, data=data).attrs["units"] = units

    for name in datasets(saved):
        text = refused(lambda file, name=name: change(file, name))
        assert f"/{name}: found" in text


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_no_dataset_may_hold_what_is_not_finite(value, saved, refused):
    def change(file, name):
        data = file[name][()]
        data.flat[-1] = value
        file[name][...] = data

    for name in datasets(saved):
        if not name.endswith("stuck"):
            text = refused(lambda file, name=name: change(file, name))
            assert f"/{name}: found NaN or infinity, allowed: finite numbers" in text


@pytest.mark.parametrize(
    "name",
    ["conductances", "reference_conductances", "cells", "reference_cells", "noise_variance",
     "reference_variance", "seen", "digits", "column_scale", "forward/gain_correction"],
)  # fmt: skip
def test_negative_values(name, refused):
    def change(file):
        data = file[f"array/{name}"][()]
        data.flat[0] = -1e-9
        file[f"array/{name}"][...] = data

    assert f"/{name}: found -1e-09, allowed: " in refused(change)


@pytest.mark.parametrize(
    ("key", "value", "allowed"),
    [
        ("shape", [9, 13], "of shape"), ("shape", [9], "two sizes"),
        ("shape", [0, 12], "two sizes"),
        ("dtype", "float16", "float32, float64"), ("dtype", "float32", "float32"),
        ("range_policy", "any", "fixed, per_vector, held"), ("seed", -1, "an integer, 0 or more"),
        ("scale", 0.0, "more than 0"), ("drift_factor", np.nan, "more than 0"),
        ("record_cells", 2.5, "an integer"), ("stale", 2, "true or false"),
        ("out_tile_starts", [0, 4], "as the card cuts"), ("device", "abacus", "cpu, cuda"),
        ("time_s", "late", "a number"), ("weight_per_conductance", 0.0, "more than 0"),
    ],
)  # fmt: skip
def test_attributes(key, value, allowed, refused):
    def change(file):
        file["array"].attrs[key] = value

    text = refused(change)
    assert allowed in text.partition("allowed: ")[2]


def test_neither_weights_nor_matrix(refused):
    def change(file):
        file["array"].attrs["weights_held"] = False

    assert "weights_held" in refused(change)


def test_flipped_bits_behind_a_good_seal_never_end_in_a_crash(saved, tmp_path):
    """Damage that was sealed: an error of ours, or an array; small attributes cannot all tell."""
    content = saved.read_bytes()[:-SEAL_LENGTH]
    rng = np.random.default_rng(1)
    path = tmp_path / "flipped.h5"
    for _ in range(150):
        changed = bytearray(content)
        changed[rng.integers(len(content))] ^= 1 << rng.integers(8)
        path.write_bytes(changed)
        append_seal(path)
        try:
            Crossbar.load(path)
        except CheckpointError as error:
            assert str(error).startswith(str(path))
