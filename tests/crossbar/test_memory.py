"""Conductances of an array: read out, moved, put back, and the wires that follow them."""

import numpy as np
import pytest
import torch

from eptsim.base.errors import InputError
from eptsim.crossbar.crossbar import Crossbar
from eptsim.crossbar.memory import Conductances
from eptsim.crossbar.stages import Position
from eptsim.crossbar.wires import effective_conductance

MAPPINGS = ("differential", "reference_column", "offset")
LOW, HIGH = 1e-6, 2.1e-5
BASE = {
    "cell.g_min_s": LOW, "cell.g_max_s": HIGH, "array.rows": 9, "array.columns": 4,
    "forward.gain": 0.1,
}  # fmt: skip
FLAWS = {"cell.programming.sigma": 0.02, "cell.stuck.low": 0.05}
SLICES = {"cell.levels": 4, "array.slices": 3, "array.scaling": "tile"}
WIRES = {
    "array.wire_word_ohm": 100.0, "array.wire_bit_ohm": 60.0, "array.driver_ohm": 300.0,
    "array.sense_ohm": 200.0,
}  # fmt: skip
W = torch.randn(18, 23, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
X = torch.randn(5, 23, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
D = torch.randn(5, 18, generator=torch.Generator().manual_seed(4), dtype=torch.float64)


def make(ideal, mapping, *changes, dtype=torch.float64, **more):
    values = {k: v for part in (BASE, *changes, more) for k, v in part.items()}
    return Crossbar(W.to(dtype), ideal.override({**values, "array.mapping": mapping}), seed=3)


def moved(array, size=0.3, seed=0):
    """The array's conductances, each moved by up to ``size`` of itself."""
    held, rng = array.conductances(), np.random.default_rng(seed)
    reference = held.reference
    cells = held.cells * (1 + size * rng.uniform(-1, 1, held.cells.shape))
    if reference is not None:
        reference = reference * (1 + size * rng.uniform(-1, 1, reference.shape))
    return Conductances(cells, reference)


def matrix_of(held, array, see=lambda g_s: g_s):
    """The matrix (out, in) that conductances stand for, tile by tile."""
    card, memory = array.card, array._memory
    span, total = HIGH - LOW, np.zeros(array.shape)
    for o in range(0, 18, 4):
        for i in range(0, 23, 9):
            lines, inner = slice(o, o + 4), slice(i, i + 9)
            for k, place in enumerate(memory.scales.digits):
                g = [device[k, lines, inner] for device in held.cells]
                if card.array.mapping == "reference_column":
                    tile = see(np.vstack([g[0], held.reference[k, o // 4, inner]]))
                    weight = 2 * (tile[:-1] - tile[-1]) / span
                elif card.array.mapping == "offset":
                    weight = 2 * (see(g[0]) - (LOW + HIGH) / 2) / span
                else:
                    weight = (see(g[0]) - see(g[1])) / span
                total[lines, inner] += place * weight
    return total * memory.scales.relative(memory.tiling) * memory.scales.scale


def solved(g_s, card):
    entry = card.array
    found = effective_conductance(
        np.ascontiguousarray(g_s.T), entry.wire_word_ohm, entry.wire_bit_ohm,
        driver_ohm=entry.driver_ohm, sense_ohm=entry.sense_ohm,
    )  # fmt: skip
    return found.T


def reads(array):
    at = Position(0, 0, 0.0)
    return array.read(X.to(array.dtype), position=at), array.read_transpose(
        D.to(array.dtype), position=at
    )


def assert_reads_like_its_weight(array, tolerance=1e-11):
    """Transposed, where the lines have no flaws."""
    d = D.to(array.dtype)
    want = d @ array.weight()
    torch.testing.assert_close(array.read_transpose(d), want, rtol=tolerance, atol=10 * tolerance)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("mapping", MAPPINGS)
@pytest.mark.parametrize("kind", [{}, FLAWS, SLICES, {**FLAWS, **SLICES}, {**FLAWS, **WIRES}])
def test_conductances_put_back_change_nothing(ideal, mapping, kind, dtype):
    array = make(ideal, mapping, kind, dtype=dtype)
    tolerance = 1e-13 if dtype == torch.float64 else 3e-6
    before, held = (array.weight(), *reads(array)), array.conductances()
    assert held.cells.dtype == np.float64
    devices = 2 if mapping == "differential" else 1
    assert held.cells.shape == (devices, kind.get("array.slices", 1), 18, 23)
    assert (held.reference is None) == (mapping != "reference_column")
    array.set_conductances(held)
    again = array.conductances()
    np.testing.assert_allclose(again.cells, held.cells, rtol=1e-15)
    for a, b in zip(before, (array.weight(), *reads(array)), strict=True):
        torch.testing.assert_close(b, a, rtol=0, atol=tolerance * float(a.abs().max()))
    if held.reference is not None:
        assert held.reference.shape == (kind.get("array.slices", 1), 5, 23)
        np.testing.assert_allclose(again.reference, held.reference, rtol=1e-15)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("mapping", MAPPINGS)
@pytest.mark.parametrize("kind", [{}, FLAWS, SLICES])
def test_the_matrix_follows_the_conductances(ideal, mapping, kind, dtype):
    array = make(ideal, mapping, kind, dtype=dtype)
    new = moved(array)
    array.set_conductances(new)
    want = torch.from_numpy(matrix_of(new, array)).to(dtype)
    tolerance = 1e-12 if dtype == torch.float64 else 1e-5
    torch.testing.assert_close(array.weight(), want, rtol=0, atol=tolerance)
    assert (want.double() - W).abs().max() > 0.1
    assert_reads_like_its_weight(array, tolerance)
    assert not array.wires_stale
    assert array.wires_error(3) == 0.0


@pytest.mark.parametrize("mapping", MAPPINGS)
def test_bare_matmuls_follow_too(ideal, mapping):
    array = make(ideal, mapping, {"forward.gain": 0.0})
    new = moved(array)
    array.set_conductances(new)
    want = torch.from_numpy(matrix_of(new, array))
    torch.testing.assert_close(array.read(X), X @ want.T)
    torch.testing.assert_close(array.read_transpose(D), D @ want)


def test_nothing_is_shared_with_the_caller(ideal):
    array = make(ideal, "reference_column", FLAWS)
    before = array.weight()
    held = array.conductances()
    held.cells[:] = 0
    held.reference[:] = 0
    assert torch.equal(array.weight(), before)
    new = moved(array)
    array.set_conductances(new)
    after = array.weight()
    new.cells[:] = 0
    assert torch.equal(array.weight(), after)
    assert_reads_like_its_weight(array)


def test_noise_and_flicker_follow(ideal):
    """Cells switched off neither fluctuate nor read noisily."""
    noise = {"cell.read_noise.law": "proportional", "cell.read_noise.sigma": 0.1}
    array = make(ideal, "differential", noise, {"cell.flicker.sigma": 0.1})
    held = array.conductances()
    held.cells[:, :, 3] = 0.0
    array.set_conductances(held)
    y = array.read(X)
    assert (y[:, 3] == 0).all()
    assert (y[:, 4] != 0).all()


def test_the_record_is_that_of_the_programming(ideal):
    array = make(ideal, "differential", FLAWS)
    before = array.record
    array.set_conductances(moved(array))
    assert array.record == before


BAD = {
    "shape": lambda h: Conductances(h.cells[..., :-1], h.reference),
    "no slices": lambda h: Conductances(h.cells[:, 0], h.reference),
    "negative": lambda h: Conductances(h.cells - 1e-5, h.reference),
    "nan": lambda h: Conductances(h.cells * np.nan, h.reference),
    "infinite": lambda h: Conductances(h.cells * np.inf, h.reference),
    "tensor": lambda h: Conductances(torch.from_numpy(h.cells), h.reference),
    "list": lambda h: Conductances(h.cells.tolist(), h.reference),
    "integers": lambda h: Conductances(np.ones(h.cells.shape, int), h.reference),
    "complex": lambda h: Conductances(h.cells + 0j, h.reference),
    "no reference": lambda h: Conductances(h.cells),
    "reference shape": lambda h: Conductances(h.cells, h.reference[:, :-1]),
    "negative reference": lambda h: Conductances(h.cells, -h.reference),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_conductances_are_refused_and_change_nothing(ideal, case):
    array = make(ideal, "reference_column", FLAWS, WIRES)
    before = array.weight()
    with pytest.raises(InputError, match=r"conductances: (cells|reference): found"):
        array.set_conductances(BAD[case](array.conductances()))
    assert torch.equal(array.weight(), before)
    assert not array.wires_stale


def test_a_reference_where_there_is_none_is_refused(ideal):
    array = make(ideal, "offset")
    held = array.conductances()
    with pytest.raises(InputError, match="reference: found ndarray, allowed: None"):
        array.set_conductances(Conductances(held.cells, np.ones((1, 5, 23))))


# wires


@pytest.mark.parametrize("mapping", MAPPINGS)
@pytest.mark.parametrize("kind", [{}, FLAWS, SLICES])
def test_exact_wires_are_stale_until_solved_again(ideal, mapping, kind):
    array = make(ideal, mapping, kind, WIRES)
    assert not array.wires_stale
    assert array.wires_error(15) < 1e-14
    new = moved(array)
    array.set_conductances(new)
    want = matrix_of(new, array, lambda g: solved(g, array.card))
    error = np.linalg.norm(array.weight().numpy() - want) / np.linalg.norm(want)
    assert array.wires_stale
    assert 1e-6 < error < 0.02
    if array.card.array.slices == 1 and array.card.array.scaling == "array":
        assert array.wires_error(15) == pytest.approx(error, rel=1e-9)
    assert_reads_like_its_weight(array)
    array.refresh_wires()
    assert not array.wires_stale
    assert array.wires_error(15) < 1e-14
    np.testing.assert_allclose(array.weight().numpy(), want, rtol=0, atol=1e-12)
    assert_reads_like_its_weight(array)
    again = array.weight()
    array.refresh_wires()  # nothing left to do
    assert torch.equal(array.weight(), again)


@pytest.mark.parametrize("mapping", MAPPINGS)
def test_ladders_are_never_stale_and_know_their_error(ideal, mapping):
    array = make(ideal, mapping, FLAWS, WIRES, {"array.wire_model": "ladder"})
    for _ in range(2):
        held = array.conductances()
        want = matrix_of(held, array, lambda g: solved(g, array.card))
        error = np.linalg.norm(array.weight().numpy() - want) / np.linalg.norm(want)
        assert not array.wires_stale
        assert 5e-5 < error < 0.05
        assert array.wires_error(15) == pytest.approx(error, rel=1e-9)
        before = array.weight()
        array.refresh_wires()
        assert torch.equal(array.weight(), before)
        array.set_conductances(moved(array))


def carried(ideal, size, ohm):
    """Norm of the error after a move, and of the change that the move makes."""
    wires = {key: value * ohm for key, value in WIRES.items()}
    array = make(ideal, "differential", FLAWS, wires)
    before, new = array.weight(), moved(array, size)
    array.set_conductances(new)
    left = array.weight()
    array.refresh_wires()
    right = array.weight()
    return float((left - right).norm()), float((right - before).norm())


def slope(pairs):
    """Exponents from one halving to the next."""
    return np.diff(np.log(pairs)) / np.log(0.5)


def test_what_a_move_leaves_is_of_second_order_in_the_wires(ideal):
    """Both models' first orders agree, so the error of their difference has the slope 2."""
    errors, changes = zip(*(carried(ideal, 0.2, 0.2 * 0.5**n) for n in range(5)), strict=True)
    assert np.abs(slope(errors)[1:] - 2).max() < 0.05
    assert np.abs(slope(changes)).max() < 0.05  # the change itself hardly depends on them
    assert errors[0] < 2e-3 * changes[0]


def test_what_a_move_leaves_falls_with_the_move(ideal):
    """In proportion: the share of the change that is lost does not depend on its size."""
    errors, changes = zip(*(carried(ideal, 0.4 * 0.5**n, 1.0) for n in range(5)), strict=True)
    assert np.abs(slope(errors)[1:] - 1).max() < 0.1
    assert np.abs(slope(changes) - 1).max() < 0.05
    assert max(np.divide(errors, changes)) < 0.03


def test_moves_do_not_add_up_their_errors(ideal):
    """Only where the cells are counts, not the way: there and back leaves nothing."""
    one, other = (make(ideal, "differential", FLAWS, WIRES) for _ in range(2))
    start, weight = one.conductances(), one.weight()
    end = moved(one, 0.3)
    one.set_conductances(end)
    for n in range(5):
        other.set_conductances(moved(other, 0.2, seed=n))
    other.set_conductances(end)
    torch.testing.assert_close(other.weight(), one.weight(), rtol=0, atol=1e-12)
    one.set_conductances(start)
    torch.testing.assert_close(one.weight(), weight, rtol=0, atol=1e-12)
    assert one.wires_stale
    assert one.wires_error(15) < 1e-12


@pytest.mark.parametrize("tiles", [1, 2, 15, 1000])
def test_the_error_of_some_tiles_is_about_that_of_all(ideal, tiles):
    array = make(ideal, "differential", FLAWS, WIRES)
    array.set_conductances(moved(array))
    assert array.wires_error(tiles) == pytest.approx(array.wires_error(15), rel=1.0)
    for bad in (0, -1, 1.5, "2", True):
        with pytest.raises(InputError, match="tiles: found"):
            array.wires_error(bad)


@pytest.mark.parametrize("moved", [None, np.ones((2, 1, 18, 23)), (1, 2), torch.ones(3)])
def test_what_is_no_conductances_is_refused(ideal, moved):
    with pytest.raises(InputError, match="allowed: Conductances"):
        Crossbar(W, ideal).set_conductances(moved)


@pytest.mark.parametrize("mapping", MAPPINGS)
def test_exact_reads_carry_and_measure_the_error_of_stale_wires_too(ideal, mapping, tmp_path):
    """Without converters an array keeps its combined matrix only, and must not forget."""
    array = Crossbar(W, ideal.override({**BASE, **WIRES, "array.mapping": mapping,
                                        "forward.gain": 0.0}))
    held = array.conductances()
    moved = np.random.default_rng(0).uniform(LOW, HIGH, held.cells.shape)
    array.set_conductances(Conductances(moved, held.reference))
    stale, error = array.weight(), array.wires_error(1000)
    assert array.wires_stale
    array.set_conductances(Conductances(moved, held.reference))
    torch.testing.assert_close(array.weight(), stale)  # nothing moved
    array.save(tmp_path / "a.h5")
    back = Crossbar.load(tmp_path / "a.h5")
    assert torch.equal(back.weight(), stale)
    assert back.wires_error(1000) == error
    array.refresh_wires()
    want = float((stale - array.weight()).norm() / array.weight().norm())
    assert error == pytest.approx(want, rel=1e-3)
    assert error > 1e-6
    assert array.wires_error(1000) < 1e-12


def test_a_refused_move_changes_nothing(ideal):
    array = Crossbar(W, ideal.override(BASE))
    held, weight = array.conductances(), array.weight()
    with pytest.raises(InputError, match="conductances: cells: found 1e\\+300 S, allowed: at most"):
        array.set_conductances(Conductances(held.cells * 0 + 1e300, held.reference))
    assert torch.equal(array.weight(), weight)
    np.testing.assert_array_equal(array.conductances().cells, held.cells)
