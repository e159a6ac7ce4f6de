"""Whole reads through resistive wires, tile by tile, against a nodal solve written here."""

import numpy as np
import pytest
import torch
from scipy.sparse import csc_matrix
from scipy.sparse.linalg import splu

from eptsim.base.table import Table
from eptsim.crossbar.crossbar import Crossbar
from eptsim.crossbar.stages import Position

BOTH = ("forward", "transpose")
MAPPINGS = ("differential", "reference_column", "offset")
SCALINGS = ("array", "tile", "column")
G = 2e-5
WIRES = {
    "array.wire_word_ohm": 150.0, "array.wire_bit_ohm": 90.0, "array.driver_ohm": 700.0,
    "array.sense_ohm": 400.0,
}  # fmt: skip
LADDER = {**WIRES, "array.wire_model": "ladder"}
NOISE = Table((0.0, 0.3 * G, 1.1 * G), (0.01 * G, 0.06 * G, 0.02 * G))
AT = Position(5, 11, 0.37)


def nodal(g, entry):
    """Current of bit line j per volt on word line i of a tile ``g`` (words, bits)."""
    m, n = g.shape
    word, bit = np.arange(m * n).reshape(m, n), m * n + np.arange(m * n).reshape(m, n)
    along, down = entry.wire_word_ohm, entry.wire_bit_ohm
    drive, sense = 1 / (along + entry.driver_ohm), 1 / (down + entry.sense_ohm)
    ground = 2 * m * n
    at = [(word[i, j], bit[i, j], g[i, j]) for i in range(m) for j in range(n)]
    at += [(word[i, j], word[i, j + 1], 1 / along) for i in range(m) for j in range(n - 1)]
    at += [(bit[i, j], bit[i + 1, j], 1 / down) for i in range(m - 1) for j in range(n)]
    at += [(word[i, 0], ground, drive) for i in range(m)]
    at += [(bit[-1, j], ground, sense) for j in range(n)]
    a, b, value = (np.array(part) for part in zip(*at, strict=True))
    rows, columns = np.r_[a, b, a, b], np.r_[a, b, b, a]
    values = np.r_[value, value, -value, -value]
    laplacian = csc_matrix((values, (rows, columns)))[:ground, :ground]
    source = np.zeros((ground, m))
    source[word[:, 0], np.arange(m)] = drive
    return splu(laplacian).solve(source)[bit[-1]].T * sense


def chain(g, first, segment):
    """Voltages along a line of shunts ``g`` to ground, driven with 1 V at its first end."""
    n = len(g)
    y = np.zeros((n, n))
    links = 1 / np.r_[first, np.full(n - 1, segment)]
    for k in range(n):
        y[k, k] += g[k] + links[k]
        if k:
            y[k - 1, k - 1] += links[k]
            y[k, k - 1] = y[k - 1, k] = -links[k]
    return np.linalg.solve(y, np.r_[links[0], np.zeros(n - 1)])


def parts(g, entry):
    """Voltage along each word line times share of the current that each bit line passes on."""
    word, bit = entry.wire_word_ohm, entry.wire_bit_ohm
    a = np.stack([chain(line, word + entry.driver_ohm, word) for line in g])
    b = [chain(line[::-1], bit + entry.sense_ohm, bit)[::-1] for line in g.T]
    return a * np.stack(b, axis=1)


def see(devices, reference, card):
    """Every tile of every device and slice on its own, the reference column at the far end."""
    column = card.array.mapping == "reference_column"
    seen, part = devices.copy(), np.ones_like(devices)
    seen_reference = None if reference is None else reference.copy()
    part_reference = None if reference is None else np.ones_like(reference)
    height, width = card.array.columns or devices.shape[2], card.array.rows or devices.shape[3]
    for device, k in np.ndindex(devices.shape[:2]):
        for tile, i in enumerate(range(0, devices.shape[2], height)):
            for j in range(0, devices.shape[3], width):
                lines, inner = slice(i, i + height), slice(j, j + width)
                g = devices[device, k, lines, inner]
                if column:
                    g = np.vstack([g, reference[k, tile, inner]])
                share = parts(g.T, card.array).T
                found = nodal(g.T, card.array).T
                if card.array.wire_model == "ladder":
                    found = share * g
                count = len(g) - column
                seen[device, k, lines, inner] = found[:count]
                part[device, k, lines, inner] = share[:count]
                if column:
                    seen_reference[k, tile, inner] = found[-1]
                    part_reference[k, tile, inner] = share[-1]
    return seen, seen_reference, part, part_reference


def vectors(rows, width, seed=1, dtype=torch.float64):
    x = torch.randn(rows, width, generator=torch.Generator().manual_seed(seed), dtype=dtype)
    x[rows // 2] = 0.0
    return x * torch.logspace(-2, 1, rows, dtype=dtype)[:, None]


W = vectors(18, 23, seed=2)


def pair(array, book, direction, policy="per_vector"):
    x = vectors(37, array.shape[direction == "forward"], dtype=array.dtype)
    array.hold_range(direction, 0.9)
    method = array.read if direction == "forward" else array.read_transpose
    got = method(x, range_policy=policy, position=AT).double().numpy()
    return got, book.read(direction, x.numpy(), policy, 0.9, AT.read, AT.row, AT.time_s)


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("mapping", MAPPINGS)
@pytest.mark.parametrize("scaling", SCALINGS)
@pytest.mark.parametrize("wires", [WIRES, LADDER], ids=["exact", "ladder"])
def test_every_flaw_at_once(deep, written, wires, scaling, mapping, fused):
    card = deep(mapping, {"array.scaling": scaling, **wires})
    array = Crossbar(W, card, seed=4, path="a", fused=fused)
    book = written(array, W.numpy(), see)
    np.testing.assert_allclose(array.weight().numpy(), book.stored(), rtol=1e-10, atol=1e-11)
    straight = written(array, W.numpy()).stored()
    assert np.abs(straight - book.stored()).max() > 0.05  # the wires matter
    for direction in BOTH:
        got, want = pair(array, book, direction)
        if fused:
            np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-10)
        else:  # torch's normals differ in the last digits, so that a few codes flip
            assert np.mean(np.abs(got - want) > 1e-4 * np.abs(want).max()) < 3e-3


@pytest.mark.parametrize("law", ["constant", "proportional", "sqrt", "table"])
@pytest.mark.parametrize("mapping", MAPPINGS)
@pytest.mark.parametrize("g_min", [0.0, 5e-7])
def test_each_noise_law(ideal, written, g_min, mapping, law):
    """With g_min = 0 half the cells of a pair conduct nothing, and are no less noisy for it."""
    noise = {"table": {"cell.read_noise.table": NOISE}}.get(law, {"cell.read_noise.sigma": 0.1})
    card = ideal.override({
        "cell.g_min_s": g_min, "cell.g_max_s": G, "array.mapping": mapping, "array.rows": 9,
        "array.columns": 4, "cell.read_noise.law": law, **noise, **WIRES,
    })  # fmt: skip
    array = Crossbar(W, card, seed=1)
    book = written(array, W.numpy(), see)
    for direction in BOTH:
        got, want = pair(array, book, direction)
        # the least conductance of the ladder, 1e-6 of the highest, and sqrt at 0 show
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6 * np.abs(want).max())


@pytest.mark.parametrize("mapping", MAPPINGS)
@pytest.mark.parametrize("only", WIRES)
def test_each_resistance_alone(ideal, written, mapping, only):
    card = ideal.override({
        "cell.g_max_s": G, "array.mapping": mapping, "array.rows": 9, "array.columns": 4,
        only: 2000.0,
    })  # fmt: skip

    def seen(devices, reference, card):
        none = {key: 1e-3 for key in WIRES if key != only}  # 1e-7 of a cell's resistance
        return see(devices, reference, card.override(none))

    array = Crossbar(W, card, seed=1)
    want = written(array, W.numpy(), seen).stored()
    np.testing.assert_allclose(array.weight().numpy(), want, rtol=0, atol=5e-5)
    assert np.abs(want - W.numpy()).max() > 0.05


@pytest.mark.parametrize("mapping", MAPPINGS)
@pytest.mark.parametrize("wires", [WIRES, LADDER], ids=["exact", "ladder"])
def test_float32_follows_to_rounding(deep, written, wires, mapping):
    plain = {f"{d}.{k}_bits": None for d in BOTH for k in ("dac", "adc")}
    array = Crossbar(W.float(), deep(mapping, {**wires, **plain}), seed=4, path="a")
    book = written(array, W.float().numpy(), see)
    for direction in BOTH:
        got, want = pair(array, book, direction)
        size = np.abs(want).max(axis=1, keepdims=True)
        assert (np.abs(got - want) <= 3e-5 * size + 1e-7).all()


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("mapping", MAPPINGS)
@pytest.mark.parametrize("wires", [WIRES, LADDER], ids=["exact", "ladder"])
def test_the_transposed_read_is_the_adjoint(deep, wires, mapping, fused):
    """With all that is noiseless and linear on: wires, cells, 1/f noise, scales and slices."""
    quiet = {"cell.read_noise.law": "none", "cell.read_noise.sigma": 0.0}
    quiet |= {"array.coding": "pulse_width"}
    for d in BOTH:
        quiet |= {f"{d}.{k}": None for k in ("dac_bits", "adc_bits", "input_range")}
        quiet |= {f"{d}.{k}": 0.0 for k in ("offset", "gain", "line_noise", "offset_drift")}
        quiet[f"{d}.output_range"] = 1e6
    for scaling in SCALINGS:
        card = deep(mapping, {**quiet, **wires, "array.scaling": scaling})
        array = Crossbar(W, card, seed=6, fused=fused)
        x, d = vectors(8, 23, seed=1), vectors(8, 18, seed=2)
        left = (d * array.read(x, position=AT)).sum(dim=1)
        right = (array.read_transpose(d, position=AT) * x).sum(dim=1)
        size = (d.abs() @ array.weight().abs() * x.abs()).sum(dim=1)
        assert ((left - right).abs() <= 2e-14 * size).all()


@pytest.mark.parametrize("mapping", MAPPINGS)
@pytest.mark.parametrize("model", ["exact", "ladder"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_wires_that_pass_next_to_nothing_are_finite_and_reported(ideal, mapping, model, dtype):
    changes = {
        **dict.fromkeys(WIRES, 1e9), "array.wire_model": model, "array.mapping": mapping,
        "cell.g_max_s": 1e-2, "cell.read_noise.law": "constant", "cell.read_noise.sigma": 0.1,
        "cell.flicker.sigma": 0.1, "array.rows": 12, "array.columns": 10,
    }  # fmt: skip
    array = Crossbar(W.to(dtype), ideal.override(changes))
    for y in (array.read(vectors(3, 23, dtype=dtype)),
              array.read_transpose(vectors(3, 18, dtype=dtype)), array.weight()):
        assert torch.isfinite(y).all()
    if mapping == "offset":  # the digital middle is subtracted from nothing
        assert array.record.error > 1
    else:
        assert array.record.error == pytest.approx(1.0, abs=1e-6)
        assert array.weight().abs().max() < 1e-6
    assert array.wires_error(2) < 1.0


def test_the_record_counts_the_wires(ideal, written):
    card = ideal.override({**WIRES, "cell.g_max_s": G, "array.rows": 9, "array.columns": 4})
    array = Crossbar(W, card)
    error = written(array, W.numpy(), see).stored() - W.numpy()
    want = np.linalg.norm(error) / np.linalg.norm(W.numpy())
    assert array.record.error == pytest.approx(want, rel=1e-10)
    assert want > 0.01
