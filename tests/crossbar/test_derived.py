"""What reads use of conductances: weights, variances, fluctuations, and only where needed."""

import numpy as np
import pytest
import torch

from eptsim.base.streams import Stream
from eptsim.crossbar.crossbar import Crossbar
from eptsim.crossbar.derived import (
    combine,
    derive,
    needs_content,
    perfect_content,
    uniform_noise,
)
from eptsim.crossbar.scaling import Scales, Tiling, digit_weights
from eptsim.crossbar.tiles import cut

MAPPINGS = ("differential", "reference_column", "offset")
CELL = {"cell.g_min_s": 1e-6, "cell.g_max_s": 2.1e-5}
TILING = Tiling(cut(11, 4), cut(13, 5))
TARGET = torch.rand(2, 11, 13, generator=torch.Generator().manual_seed(0)).double() * 2 - 1
NOISE = {"cell.read_noise.law": "constant", "cell.read_noise.sigma": 0.1}
SQRT = {"cell.read_noise.law": "sqrt", "cell.read_noise.sigma": 0.1}
FLICKER = {"cell.flicker.sigma": 0.1}
WIRES = {"array.wire_word_ohm": 10.0}


def derived(card, content, exact=True):
    return derive(content, card, TILING, Stream.of(0, "a", "flicker"), exact=exact)


@pytest.mark.parametrize("mapping", MAPPINGS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_perfect_cells_hold_their_targets(ideal, mapping, dtype):
    card = ideal.override({**CELL, "array.mapping": mapping})
    target = TARGET.to(dtype)
    content = perfect_content(target, card, TILING)
    assert content.cells.dtype == dtype
    assert content.cells.shape == (2 if mapping == "differential" else 1, 2, 11, 13)
    low = 1e-6 / 2.1e-5
    assert low * (1 - 1e-6) <= content.cells.min()
    assert content.cells.max() <= 1 + 1e-6
    if mapping == "reference_column":
        assert content.reference.shape == (2, 3, 13)
        torch.testing.assert_close(
            content.reference, torch.full((2, 3, 13), (1 + low) / 2, dtype=dtype)
        )
    else:
        assert content.reference is None
    tolerance = 1e-14 if dtype == torch.float64 else 1e-6
    found = derived(card, content)
    torch.testing.assert_close(found.weights, target.double(), rtol=0, atol=tolerance)
    assert found.weights.dtype == torch.float64
    assert (found.noise, found.reference_noise, found.flicker) == (None, None, None)


@pytest.mark.parametrize("mapping", MAPPINGS)
def test_single_conductances_are_kept_where_something_depends_on_them(ideal, mapping):
    def needed(changes):
        return needs_content(ideal.override({"array.mapping": mapping, **changes}))

    assert not needed({})
    assert needed(NOISE) == (mapping == "reference_column")
    assert not needed({"cell.read_noise.law": "none", "forward.line_noise": 0.1})
    for changes in (SQRT, FLICKER, WIRES, {"array.sense_ohm": 1.0}):
        assert needed(changes)


@pytest.mark.parametrize("mapping", MAPPINGS)
def test_one_variance_for_all_is_that_of_each(ideal, mapping):
    card = ideal.override({**CELL, **NOISE, "array.mapping": mapping})
    found = derived(card, perfect_content(TARGET, card, TILING))
    assert found.noise.uniform == pytest.approx(uniform_noise(card).uniform, rel=1e-12)
    unit = (0.1 * 2.1e-5 / 2e-5) ** 2
    cells = {"differential": 2, "reference_column": 4, "offset": 4}[mapping]
    assert found.noise.uniform == pytest.approx(cells * unit, rel=1e-12)
    if mapping == "reference_column":
        want = torch.full((2, 3, 13), 4 * unit, dtype=torch.float64)
        torch.testing.assert_close(found.reference_noise, want)
    assert uniform_noise(ideal) is None
    assert uniform_noise(card.override({"cell.read_noise.sigma": 0.0})) is None


@pytest.mark.parametrize("mapping", MAPPINGS)
@pytest.mark.parametrize("exact", [True, False])
def test_the_lines_see_fluctuations_through_their_wires(ideal, mapping, exact):
    card = ideal.override({**CELL, **FLICKER, **WIRES, "array.mapping": mapping})
    content = perfect_content(TARGET, card, TILING)
    found = derived(card, content, exact)
    part = found.flicker.cells / content.cells
    assert (part < 1).all()
    assert (part > 0.9).all()
    if mapping == "reference_column":
        assert (found.flicker.reference < content.reference).all()
    still = derived(card.override(dict.fromkeys(WIRES)), content)
    assert torch.equal(still.flicker.cells, content.cells)


def test_the_matrix_is_the_sum_of_its_slices_times_their_scales():
    generator = torch.Generator().manual_seed(1)
    stored = torch.rand(3, 11, 13, generator=generator).double()
    digits = digit_weights(3, 4)
    tile = np.random.default_rng(0).uniform(size=(3, 3))
    column = np.random.default_rng(1).uniform(size=11)
    total = (stored * torch.from_numpy(digits)[:, None, None]).sum(dim=0)
    plain = combine(stored, Scales(2.0, None, None, digits), TILING, 1.5)
    torch.testing.assert_close(plain, total * 3.0)
    columns = combine(stored, Scales(2.0, None, column, digits), TILING, 1.5)
    torch.testing.assert_close(columns, total * 3.0 * torch.from_numpy(column)[:, None])
    tiles = combine(stored.float(), Scales(2.0, tile, None, digits), TILING, 1.5)
    assert tiles.dtype == torch.float64
    for o, lines in enumerate(TILING.out):
        for i, inner in enumerate(TILING.inner):
            want = plain[lines, inner] * tile[o, i]
            torch.testing.assert_close(tiles[lines, inner], want, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kind", [{}, NOISE, SQRT, FLICKER, WIRES])
def test_an_array_keeps_no_more_than_its_reads_need(ideal, kind):
    """Bare matmuls hold the combined matrix, others the stored weights; cells where they count."""
    array = Crossbar(TARGET[0], ideal.override(kind))
    memory, quiet = array._memory, kind in ({}, WIRES)
    assert (memory.stored is None) == quiet
    assert (memory.combined is None) != quiet
    assert (memory.content is None) == (kind in ({}, NOISE))
    assert memory.derived.weights.numel() == 0
    one_way = Crossbar(TARGET[0], ideal.override({"forward.gain": 0.1}))._memory
    assert one_way.stored is not None
    assert one_way.combined is not None
