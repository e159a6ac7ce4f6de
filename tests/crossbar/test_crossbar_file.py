"""A saved array goes on to the bit; under another card, the new converters hold."""

import warnings

import h5py
import numpy as np
import pytest
import torch

import eptsim
from eptsim.base.errors import CardError, CheckpointError, InputError
from eptsim.base.sealed import SEAL_LENGTH, append_seal
from eptsim.cards import list_cards
from eptsim.crossbar.conduction import Wires
from eptsim.crossbar.crossbar import Crossbar
from eptsim.crossbar.crossbar_file import CalibrationDropped
from eptsim.crossbar.memory import Conductances

W = torch.randn(13, 17, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
TIMES = {"cell.drift.time_s": 1e3, "cell.drift.t0_s": 1.0}
CARDS = {
    "plain": {},
    "sliced": {"array.slices": 3, "cell.levels": 5},
    "by column": {"array.scaling": "column"},
    "by tile": {"array.scaling": "tile", "array.clip_percentile": 95.0},
    "compensated": {"cell.drift.compensation": "reference_read"},
    "flicker": {"cell.flicker.sigma": 0.02},
    "wander": {"forward.offset_drift": 0.02, "transpose.offset_drift": 0.03},
    "bent": {"cell.iv.law": "sinh", "cell.iv.v0_v": 0.3, "array.coding": "amplitude"},
    "scattered": {
        "cell.levels": None, "cell.spread.g_min": 0.01, "cell.spread.g_max": 0.02,
        "cell.retention.tau_s": 1e5, "cell.stuck.random": 0.01,
        "cell.programming.verify_tolerance": 0.01,
    },
}  # fmt: skip
WIRES = {
    "wires": {"array.wire_word_ohm": 500.0, "array.wire_bit_ohm": 300.0},
    "wires, flicker": {"array.wire_word_ohm": 500.0, "cell.flicker.sigma": 0.02},
    "ladder": {"array.wire_word_ohm": 500.0, "array.wire_model": "ladder"},
}


@pytest.fixture
def solved(monkeypatch) -> list[bool]:
    """Wires solved by a plain formula, which is enough here; notes each solution, exact or not."""
    calls: list[bool] = []

    def solve(wires: Wires, g_s: torch.Tensor, exact: bool) -> torch.Tensor:
        calls.append(exact)
        along = (1.0 + 0.01 * exact) * wires.word_ohm * g_s.cumsum(-1)
        return g_s / (1.0 + along + wires.bit_ohm * g_s.cumsum(-2))

    monkeypatch.setattr(Wires, "solve", solve)
    return calls


def vectors(lines: int, dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    return torch.randn(5, lines, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def reads(array: Crossbar, seed: int = 0) -> list[torch.Tensor]:
    """Reads in both directions, at stream positions of the array's own."""
    out, inner = array.shape
    x, d = vectors(inner, array.dtype, seed), vectors(out, array.dtype, seed)
    return [
        array.read(x), array.read_transpose(d), array.read(x, range_policy="held"),
        array.read_transpose(d, range_policy="fixed"), array.weight(),
        array.zero_reference("transpose", 3),
    ]  # fmt: skip


def same(left: list[torch.Tensor], right: list[torch.Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(left, right, strict=True))


def used(array: Crossbar) -> Crossbar:
    """An array with a past: reads, a calibration, a held range, a clock."""
    array.read(vectors(array.shape[1], array.dtype))
    array.calibrate("transpose", 7)
    array.hold_range("forward", 1.25)
    array.time_s = 3.5
    return array


def round_trip(array, tmp_path, card=None) -> Crossbar:
    path = tmp_path / "array.h5"
    array.save(path, overwrite=True)
    return Crossbar.load(path, card)


def assert_goes_on(array: Crossbar, tmp_path) -> Crossbar:
    loaded = round_trip(array, tmp_path)
    assert same(reads(array), reads(loaded))
    assert same(reads(array, 1), reads(loaded, 1))
    assert loaded.card == array.card
    assert loaded.record == array.record
    assert (loaded.path, loaded.seed, loaded.time_s) == (array.path, array.seed, array.time_s)
    assert (loaded.range_policy, loaded.shape) == (array.range_policy, array.shape)
    assert loaded.held_range("forward") == array.held_range("forward")
    assert loaded.held_range("transpose") is None
    a, b = array.conductances(), loaded.conductances()
    assert np.array_equal(a.cells, b.cells)
    assert (a.reference is None) == (b.reference is None)
    assert a.reference is None or np.array_equal(a.reference, b.reference)
    return loaded


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", list_cards())
def test_every_shipped_card_goes_on_to_the_bit(name, dtype, tmp_path):
    array = used(Crossbar(W.to(dtype), eptsim.load_card(name), 5, path="layers.0.qkv"))
    assert_goes_on(array, tmp_path)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("mapping", ["differential", "reference_column", "offset"])
@pytest.mark.parametrize("kind", CARDS)
def test_every_flaw_goes_on_to_the_bit(kind, mapping, dtype, flawed, tmp_path):
    card = flawed(mapping, CARDS[kind])
    assert_goes_on(used(Crossbar(W.to(dtype), card, 5, range_policy="per_vector")), tmp_path)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("mapping", ["differential", "reference_column"])
@pytest.mark.parametrize("kind", WIRES)
def test_wires_are_not_solved_again(kind, mapping, dtype, flawed, tmp_path, solved):
    array = used(Crossbar(W.to(dtype), flawed(mapping, WIRES[kind]), 5))
    solved.clear()
    loaded = assert_goes_on(array, tmp_path)
    assert solved == []
    assert loaded.wires_stale is False


@pytest.mark.parametrize("kind", WIRES)
def test_real_wires_go_on_to_the_bit(kind, flawed, tmp_path):
    array = used(Crossbar(W.float(), flawed("reference_column", WIRES[kind]), 5))
    loaded = assert_goes_on(array, tmp_path)
    assert loaded.wires_error(4) == array.wires_error(4)


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("policy", ["fixed", "per_vector", "held"])
def test_policy_and_kernels_are_kept(policy, fused, flawed, tmp_path):
    array = Crossbar(W, flawed(), range_policy=policy, fused=fused)
    array.hold_range("forward", 2.0)
    array.hold_range("transpose", 0.1)
    loaded = round_trip(array, tmp_path)
    assert loaded.range_policy == policy
    assert loaded.state().fused is fused
    assert torch.equal(array.read(vectors(17, W.dtype)), loaded.read(vectors(17, W.dtype)))
    assert loaded.held_range("transpose") == 0.1


@pytest.mark.parametrize("changes", [{}, WIRES["wires"]])
def test_moved_conductances_are_kept(changes, flawed, tmp_path, solved):
    array = Crossbar(W, flawed("reference_column", changes))
    moved = array.conductances()
    array.set_conductances(Conductances(moved.cells * 0.9 + 1e-8, moved.reference * 1.1))
    loaded = round_trip(array, tmp_path)
    assert loaded.wires_stale is array.wires_stale is bool(changes)
    assert same(reads(used(array)), reads(used(loaded)))
    array.refresh_wires()
    loaded.refresh_wires()
    assert same(reads(array), reads(loaded))


def test_a_saved_file_is_the_same_file_again(flawed, tmp_path):
    """Load and save add nothing and lose nothing."""
    array = used(Crossbar(W.float(), flawed("reference_column")))
    array.save(tmp_path / "a.h5")
    Crossbar.load(tmp_path / "a.h5").save(tmp_path / "b.h5")
    with h5py.File(tmp_path / "a.h5") as a, h5py.File(tmp_path / "b.h5") as b:
        names: list[str] = []
        a.visit(names.append)
        for name in ["/", *names]:
            assert set(a[name].attrs) == set(b[name].attrs)
            for key in a[name].attrs:
                assert np.array_equal(a[name].attrs[key], b[name].attrs[key]), (name, key)
            if isinstance(a[name], h5py.Dataset):
                assert np.array_equal(a[name][()], b[name][()]), name
        assert len(names) > 10


def test_saving_changes_nothing(flawed, tmp_path):
    array, twin = used(Crossbar(W, flawed())), used(Crossbar(W, flawed()))
    array.save(tmp_path / "a.h5")
    assert same(reads(array), reads(twin))


READ_CHANGES = {
    "dac": {"forward.dac_bits": 3},
    "adc": {"transpose.adc_bits": 4},
    "ideal adc": {"forward.adc_bits": None},
    "input range": {"forward.input_range": 0.7, "transpose.input_range": None},
    "output range": {"forward.output_range": 1.0, "transpose.output_range": None},
    "offset": {"forward.offset": 0.1, "transpose.offset": 0.0},
    "gain": {"transpose.gain": 0.2},
    "wander": {"forward.offset_drift": 0.02},
    "line noise": {"forward.line_noise": 0.0},
    "other cell noise": {"cell.read_noise.sigma": 0.1},
    "another law": {"cell.read_noise.law": "sqrt", "cell.read_noise.sigma": 0.1},
    "no cell noise": {"cell.read_noise.law": "none", "cell.read_noise.sigma": 0.0},
    "flicker": {"cell.flicker.sigma": 0.05},
    "bent": {"cell.iv.law": "cubic", "cell.iv.v0_v": 0.4, "array.coding": "amplitude"},
    "ideal reads": {
        f"{d}.{k}": v for d in ("forward", "transpose")
        for k, v in {"dac_bits": None, "adc_bits": None, "input_range": None, "output_range": None,
                     "offset": 0.0, "gain": 0.0, "line_noise": 0.0}.items()
    } | {"cell.read_noise.law": "none", "cell.read_noise.sigma": 0.0},
}  # fmt: skip


@pytest.mark.parametrize("mapping", ["differential", "reference_column"])
@pytest.mark.parametrize("change", READ_CHANGES)
def test_under_another_card_its_converters_hold(change, mapping, flawed, tmp_path):
    """The trap: what was loaded reads as if it had been programmed under the new card."""
    old = flawed(mapping)
    new = old.override(READ_CHANGES[change])
    for first, second in ((old, new), (new, old)):
        array = Crossbar(W.float(), first, 3)
        fresh = Crossbar(W.float(), second, 3)
        loaded = round_trip(array, tmp_path, second)
        assert loaded.card == second
        for other in (fresh, loaded, array):
            other.hold_range("forward", 1.1)
        assert not same(reads(array), want := reads(fresh))
        assert same(reads(loaded), want)


@pytest.mark.parametrize("change", ["other cell noise", "no cell noise", "flicker", "offset"])
def test_under_another_card_with_wires(change, flawed, tmp_path, solved):
    old = flawed("reference_column", WIRES["wires"])
    new = old.override(READ_CHANGES[change])
    loaded = round_trip(Crossbar(W.float(), old, 3), tmp_path, new)
    fresh = Crossbar(W.float(), new, 3)
    for other in (fresh, loaded):
        other.hold_range("forward", 1.1)
    assert same(reads(loaded), reads(fresh))


def test_perfect_cells_under_converters_and_back(ideal, tmp_path):
    coarse = ideal.override({"forward.adc_bits": 6, "cell.read_noise.law": "proportional",
                             "cell.read_noise.sigma": 0.02})  # fmt: skip
    x = vectors(17, torch.float32)
    for first, second in ((ideal, coarse), (coarse, ideal), (ideal, ideal)):
        got = round_trip(Crossbar(W.float(), first), tmp_path, second).read(x)
        torch.testing.assert_close(got, Crossbar(W.float(), second).read(x), rtol=1e-4, atol=1e-4)


def test_redrawn_flaws_have_the_new_size(flawed, tmp_path):
    old = flawed()
    array = Crossbar(W, old)
    loaded = round_trip(array, tmp_path, old.override({"forward.offset": 0.04}))
    before, after = array.stage("forward").offset, loaded.stage("forward").offset
    torch.testing.assert_close(after, 2 * before)  # the same draws at the new size
    assert torch.equal(loaded.stage("forward").gain, array.stage("forward").gain)
    assert torch.equal(loaded.stage("transpose").offset, array.stage("transpose").offset)


def test_a_calibration_of_other_converters_is_dropped_with_a_warning(flawed, tmp_path):
    card = flawed()
    array = used(Crossbar(W, card))
    array.calibrate("forward", 7)
    array.save(tmp_path / "a.h5")
    with pytest.warns(CalibrationDropped, match=r"a\.h5.*transpose.*transpose\.adc_bits"):
        loaded = Crossbar.load(tmp_path / "a.h5", card.override({"transpose.adc_bits": 3}))
    assert set(loaded.state().corrections) == {"forward"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kept = Crossbar.load(tmp_path / "a.h5", card.override({"cell.read_noise.sigma": 0.1}))
        Crossbar.load(tmp_path / "a.h5", card)
    assert set(kept.state().corrections) == {"forward", "transpose"}


def test_other_cells_are_refused_by_name(flawed, tmp_path):
    card = flawed()
    Crossbar(W, card).save(tmp_path / "a.h5")
    other = card.override({"cell.g_max_s": 3e-5, "array.rows": 8, "forward.adc_bits": 3,
                           "cell.levels": None})  # fmt: skip
    with pytest.raises(CardError) as caught:
        Crossbar.load(tmp_path / "a.h5", other)
    message = str(caught.value)
    assert "a.h5" in message and "forward" not in message
    for part in ("cell.g_max_s: found 3e-05 S, allowed: 2e-05 S", "array.rows: found 8, allowed: 7",
                 "cell.levels: found ideal, allowed: 33"):  # fmt: skip
        assert part in message
    with pytest.raises(InputError, match="card: found str"):
        Crossbar.load(tmp_path / "a.h5", "harsh")


def test_a_card_with_a_bibliography_of_its_own(tmp_path):
    text = eptsim.load_card("hfo2_rram").text()
    cited = next(o.source for o in eptsim.load_card("hfo2_rram").origins.values() if o.source)
    (tmp_path / "own.toml").write_text(text.replace(f'"{cited}"', '"mine"'))
    entry = "@misc{mine, author = {A}, title = {B}, year = {2000}, note = {C}, url = {D}}"
    (tmp_path / "sources.bib").write_text(entry)
    card = eptsim.load_card(tmp_path / "own.toml")
    (tmp_path / "elsewhere").mkdir()
    loaded = round_trip(Crossbar(W, card), tmp_path / "elsewhere")
    assert loaded.card.text() == card.text()


def test_a_file_that_is_there_is_kept(flawed, tmp_path):
    path = tmp_path / "new" / "a.h5"
    Crossbar(W, flawed()).save(path)
    before = path.read_bytes()
    with pytest.raises(CheckpointError, match=r"a\.h5: found a file there already"):
        Crossbar(W.T, flawed()).save(path)
    assert path.read_bytes() == before
    Crossbar(W.T, flawed()).save(path, overwrite=True)
    assert Crossbar.load(path).shape == (17, 13)
    assert list(path.parent.iterdir()) == [path]


def test_devices(flawed, tmp_path):
    Crossbar(W, flawed()).save(tmp_path / "a.h5")
    for device in ("nowhere", "cuda:77", 3):
        with pytest.raises(InputError, match="device: found"):
            Crossbar.load(tmp_path / "a.h5", device=device)
    assert Crossbar.load(tmp_path / "a.h5", device=torch.device("cpu")).device.type == "cpu"


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_from_cuda_and_back(flawed, tmp_path):
    array = used(Crossbar(W.float().cuda(), flawed()))
    array.save(tmp_path / "a.h5")
    loaded = Crossbar.load(tmp_path / "a.h5", device="cuda")
    x = vectors(17, torch.float32).cuda()
    assert torch.equal(array.read(x), loaded.read(x))
    assert Crossbar.load(tmp_path / "a.h5").state().fused


def test_a_layout_of_the_weight_makes_no_other_chip(flawed, tmp_path):
    array = Crossbar(W.float(), flawed())
    turned = Crossbar(W.float().T.contiguous().T, flawed())
    for other in (array, turned):
        other.hold_range("forward", 1.0)
    assert same(reads(array), reads(turned))


def test_the_seal_covers_the_file(flawed, tmp_path):
    """Every byte: flipped, or cut off, the file is refused before HDF5 sees it."""
    path = tmp_path / "a.h5"
    Crossbar(W[:2, :3].float(), flawed()).save(path)
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    ends = [0, 1, len(whole) - 1, len(whole) - SEAL_LENGTH]
    for place in [*ends, *rng.integers(len(whole), size=80)]:
        changed = bytearray(whole)
        changed[place] ^= 1 << rng.integers(8)
        path.write_bytes(changed)
        with pytest.raises(CheckpointError, match=r"a\.h5: found bytes that do not end in their"):
            Crossbar.load(path)
        path.write_bytes(whole[:place])
        with pytest.raises(CheckpointError, match=r"a\.h5: found bytes that do not end in their"):
            Crossbar.load(path)
    path.write_bytes(whole)
    assert Crossbar.load(path).shape == (2, 3)


@pytest.mark.parametrize("content", ["nothing", "text", "hdf5", "sealed text", "sealed hdf5"])
def test_foreign_files(content, tmp_path):
    path = tmp_path / "a.h5"
    if "text" in content:
        path.write_text("a saved chip, honestly")
    elif "hdf5" in content:
        with h5py.File(path, "w") as file:
            file["conductances"] = np.ones(3)
    if "sealed" in content:
        append_seal(path)
    with pytest.raises(CheckpointError, match=r"a\.h5"):
        Crossbar.load(path)
    with pytest.raises(CheckpointError, match="path: found int"):
        Crossbar.load(3)


def test_a_failed_save_leaves_nothing(flawed, tmp_path, monkeypatch):
    array = Crossbar(W, flawed())
    for place in ("eptsim.crossbar.crossbar_file.write_array", "eptsim.base.h5.append_seal"):
        def fail(*_):
            raise OSError("no room")

        with monkeypatch.context() as patch:
            patch.setattr(place, fail)
            with pytest.raises(CheckpointError, match=r"a\.h5: cannot be written \(no room\)"):
                array.save(tmp_path / "a.h5")
        assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match="cannot be written"):
        array.save(tmp_path / "file" / "a.h5")
