"""A saved chip goes on to the bit, gradients included; what is broken is refused."""

import json
import re
import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch

import eptsim
from eptsim.base.errors import CardError, CheckpointError, InputError
from eptsim.cards import list_cards
from eptsim.chip import Chip, array_path
from eptsim.crossbar.crossbar import Crossbar
from eptsim.crossbar.crossbar_file import CalibrationDropped
from eptsim.olmo2.block import ARRAYS

SHAPE = eptsim.Olmo2Shape(
    vocab_size=30, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2
)
IDS = torch.randint(30, (2, 6), generator=torch.Generator().manual_seed(0))
TOKENS, TARGETS = IDS[:, :-1], IDS[:, 1:]
MOVING = {
    "cell.flicker.sigma": 0.005, "forward.offset_drift": 0.002, "transpose.offset_drift": 0.002,
    "array.rows": 10, "array.columns": 7, "clock.pass_s": 1e-4, "clock.phase_interval_s": 1e-3,
}  # fmt: skip
SETTINGS = {"beta": 0.1, "sweeps": 3}


def model(dtype=torch.float32) -> eptsim.Olmo2:
    made = eptsim.Olmo2(SHAPE, seed=1, dtype=dtype)
    with torch.no_grad():
        for value in made.parameters():
            value.mul_(5.0 if value.dim() == 2 else 1.1)
    return made


def gradient(chip: Chip) -> dict[str, torch.Tensor]:
    return dict(eptsim.EPController(chip, **SETTINGS).gradient(TOKENS, TARGETS).grads)


def assert_same(left: Chip, right: Chip) -> None:
    """Both go on to the same bits: inference, gradients, counts and clock."""
    assert torch.equal(left.logits(TOKENS), right.logits(TOKENS))
    a, b = gradient(left), gradient(right)
    assert list(a) == list(b)
    assert [name for name in a if not torch.equal(a[name], b[name])] == []
    assert left.ledger == right.ledger
    assert left.time_s == right.time_s


@pytest.fixture(scope="module")
def card() -> eptsim.Card:
    return eptsim.load_card("harsh").override(MOVING)


@pytest.fixture(scope="module")
def saved(card, tmp_path_factory):
    path = tmp_path_factory.mktemp("chip") / "chip.h5"
    Chip(model(), card, seed=4).save(path)
    return path


@pytest.fixture
def copied(saved, tmp_path):
    return shutil.copy(saved, tmp_path / "chip.h5")


@pytest.mark.parametrize("name", list_cards())
def test_every_shipped_card_goes_on_to_the_bit(name, tmp_path):
    chip = Chip(model(), eptsim.load_card(name), seed=3)
    chip.logits(TOKENS)
    chip.save(tmp_path / "chip.h5")
    loaded = Chip.load(tmp_path / "chip.h5")
    assert loaded.card == chip.card
    assert torch.equal(chip.logits(TOKENS), loaded.logits(TOKENS))
    assert chip.ledger == loaded.ledger


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("periphery", ["float32", "bfloat16"])
def test_a_chip_with_a_past_goes_on_to_the_bit(periphery, dtype, card, tmp_path):
    chip = Chip(model(dtype), card, seed=3, periphery=periphery)
    gradient(chip)
    chip.arrays["layers.1.w2"].calibrate("transpose", 4)
    chip.wait(12.5)
    chip.save(tmp_path / "chip.h5")
    loaded = Chip.load(tmp_path / "chip.h5")
    assert (loaded.seed, loaded.periphery, loaded.layers) == (3, periphery, 2)
    assert list(loaded.arrays) == list(chip.arrays)
    assert all(torch.equal(a, b) for a, b in zip(loaded.node_force, chip.node_force, strict=True))
    state, want = loaded.model.state_dict(), chip.model.state_dict()
    assert list(state) == list(want) and all(torch.equal(state[k], want[k]) for k in want)
    assert loaded.model.shape == SHAPE
    assert_same(loaded, chip)


def test_saving_changes_nothing(card, tmp_path):
    chip, twin = Chip(model(), card), Chip(model(), card)
    chip.save(tmp_path / "chip.h5")
    assert_same(chip, twin)


def test_loading_shows_how_far_it_is(saved):
    calls = []
    Chip.load(saved, on_load=lambda done, of: calls.append((done, of)))
    assert calls == [(n + 1, 10) for n in range(10)]


@pytest.mark.parametrize(
    "changes",
    [
        {"forward.adc_bits": 4}, {"transpose.dac_bits": None}, {"transpose.offset": 0.001},
        {"cell.read_noise.sigma": 0.1}, {"node.offset": 0.05}, {"clock.pass_s": 1.0},
        {"cell.flicker.sigma": 0.0}, {"forward.output_range": 3.0},
    ],
)  # fmt: skip
def test_under_another_card_the_new_chip_holds(changes, card, saved):
    """The trap: a loaded chip that had its old converters."""
    other = card.override(changes)
    loaded, fresh, old = Chip.load(saved, other), Chip(model(), other, seed=4), Chip.load(saved)
    assert loaded.card == other
    a, b = gradient(fresh), gradient(old)
    assert any(not torch.equal(a[name], b[name]) for name in a)
    loaded_too = gradient(loaded)
    assert all(torch.equal(a[name], loaded_too[name]) for name in a)


def test_dropped_calibrations_are_said_once(card, tmp_path):
    chip = Chip(model(), card)
    for array in chip.arrays.values():
        array.calibrate("forward", 2)
    chip.save(tmp_path / "chip.h5")
    with pytest.warns(CalibrationDropped, match=r"'layers\.0\.qkv' and 9 more") as caught:
        Chip.load(tmp_path / "chip.h5", card.override({"forward.gain": 0.1}))
    assert len(caught) == 1
    assert caught[0].filename == __file__


def test_other_cells_are_refused(card, saved):
    with pytest.raises(CardError, match=r"chip\.h5.*cell\.programming\.sigma: found 0\.5"):
        Chip.load(saved, card.override({"cell.programming.sigma": 0.5}))


def test_an_array_of_another_card_is_refused(card, tmp_path):
    chip = Chip(model(), card)
    other = card.override({"forward.adc_bits": 2})
    chip.arrays["layers.0.w1"] = Crossbar(chip.arrays["layers.0.w1"].weight(), other)
    with pytest.raises(InputError, match=r"layers\.0\.w1"):
        chip.save(tmp_path / "chip.h5")
    assert list(tmp_path.iterdir()) == []


def test_an_existing_file_is_kept(saved, card):
    before = saved.read_bytes()
    with pytest.raises(CheckpointError, match=r"chip\.h5: found a file there already"):
        Chip(model(), card).save(saved)
    assert saved.read_bytes() == before


def test_plain_h5py_reads_siemens(saved, card):
    chip = Chip.load(saved)
    with h5py.File(saved) as file:
        found = file["arrays/layers.1.w2/conductances"]
        assert found.attrs["units"] == "S"
        assert [dim.label for dim in found.dims] == ["device", "slice", "out", "in"]
        want = chip.arrays["layers.1.w2"].conductances().cells
        assert np.array_equal(found[()], want)
        assert file["arrays/layers.1.w2/stuck"][()].sum() > 0
        assert file.attrs["card_sha256"] == card.sha256
        assert file.attrs["seed"] == 4
        assert json.loads(file["model"].attrs["shape"])["hidden_size"] == 16
        for group in ("model", "arrays/layers.0.qkv", "arrays/layers.0.qkv/forward"):
            for dataset in file[group].values():
                if isinstance(dataset, h5py.Dataset):
                    assert dataset.attrs["units"] and dataset.attrs["long_name"]


def places(saved, kind) -> list[str]:
    """Every dataset of the file but for the arrays behind the first, or every attribute."""
    found: list[str] = ["/"] if kind == "attribute" else []
    with h5py.File(saved) as file:
        file.visititems(
            lambda name, item: found.append(name)
            if kind == "attribute" or isinstance(item, h5py.Dataset) else None
        )  # fmt: skip
        few = [n for n in found if "layers.0.q" in n or not n.startswith(("arrays/", "model/mod"))]
        if kind == "dataset":
            return few
        about = {"DIMENSION_LABELS", "long_name"}
        return [f"{n}@{key}" for n in few for key in file[n].attrs if key not in about]


def test_every_missing_dataset_is_named(saved, tmp_path, edited):
    found = places(saved, "dataset")
    assert len(found) > 8
    for name in found:
        path = shutil.copy(saved, tmp_path / "chip.h5")
        with edited(path) as file:
            del file[name]
        with pytest.raises(CheckpointError, match=r"chip\.h5") as caught:
            Chip.load(path)
        assert name.split("/")[-1] in str(caught.value) and "allowed" in str(caught.value)


INFORMATION = ("torch_version", "eptsim_version", "numpy_version", "h5py_version")


def test_every_missing_attribute_is_named(saved, tmp_path, edited):
    for place in places(saved, "attribute"):
        name, key = place.split("@")
        path = shutil.copy(saved, tmp_path / "chip.h5")
        with edited(path) as file:
            del file[name].attrs[key]
        if key in INFORMATION:
            Chip.load(path)
            continue
        with pytest.raises(CheckpointError, match=r"chip\.h5") as caught:
            Chip.load(path)
        assert (name if key == "units" else key).split("/")[-1] in str(caught.value)


@pytest.mark.parametrize("key", ["time_s", "seed", "card_text", "ledger", "format"])
@pytest.mark.parametrize("value", [-1, float("nan"), "words", [1, 2], "{}"])
def test_nonsense_in_an_attribute(key, value, copied, edited):
    with edited(copied) as file:
        file.attrs[key] = value
    with pytest.raises(CheckpointError, match=rf"chip\.h5.*{key}"):
        Chip.load(copied)


def test_arrays_that_are_not_the_model_s(saved, tmp_path, edited):
    def broken(change, message):
        path = shutil.copy(saved, tmp_path / "chip.h5")
        with edited(path) as file:
            change(file["arrays"])
        with pytest.raises(CheckpointError, match=message):
            Chip.load(path)

    broken(lambda g: g.__delitem__("layers.1.w3"), r"found 9 arrays, allowed: 10.*layers\.1\.w3")
    broken(lambda g: g.create_group("layers.9.w3"), r"found 11 arrays.*layers\.9\.w3")
    broken(lambda g: (g.move("layers.0.w1", "t"), g.move("layers.0.w3", "layers.0.w1"),
                      g.move("t", "layers.0.w3")), r"layers\.0\.w1.*path")  # fmt: skip
    broken(lambda g: (g.__delitem__("layers.0.w1"), g.copy("layers.0.qkv", "layers.0.w1")),
           r"layers\.0\.w1")  # fmt: skip


def test_a_crossbar_is_no_chip(card, tmp_path):
    Crossbar(torch.eye(3), card).save(tmp_path / "a.h5")
    with pytest.raises(CheckpointError, match="found 'eptsim-crossbar-1', allowed: eptsim-chip-1"):
        Chip.load(tmp_path / "a.h5")


def test_paths_are_in_the_order_of_the_arrays(saved):
    want = [array_path(layer, array) for layer in range(2) for array in ARRAYS]
    assert list(Chip.load(saved).arrays) == want


def test_the_example_of_the_docs_runs(tmp_path, monkeypatch, capsys):
    page = Path(__file__).resolve().parents[1] / "docs" / "saving.md"
    (code,) = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(compile(code, str(page), "exec"), {})
    assert "(2, 1, 96, 32) S ['device', 'slice', 'out', 'in']" in capsys.readouterr().out


def test_the_page_names_every_dataset_and_attribute(saved):
    page = Path(__file__).resolve().parents[1] / "docs" / "saving.md"
    text = page.read_text(encoding="utf-8")
    names = set(places(saved, "dataset"))
    with h5py.File(saved) as file:
        for group in ("/", "arrays/layers.0.qkv", "arrays/layers.0.qkv/forward"):
            names |= set(file[group].attrs)
    plain = {name.split("/")[-1] for name in names if not name.startswith("model/")}
    left = {n for n in plain if f"`{n}`" not in text and not n.startswith("record_")}
    assert left <= {"card_sources", "weights_held", "matrix_held", "cells_held", *INFORMATION}
