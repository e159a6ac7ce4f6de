"""Rows of a comparison against numpy's formulas, and what cannot be compared."""

import math

import numpy as np
import pytest
import torch

import eptsim
from eptsim.base.errors import InputError
from eptsim.ep.compare import ARRAY_NAMES, compare


@pytest.fixture(scope="module")
def two(network):
    """Two unrelated gradients of the same network."""
    generator = torch.Generator().manual_seed(6)
    return tuple(
        {
            name: torch.randn(value.shape, generator=generator, dtype=torch.float64)
            for name, value in network.model.named_parameters()
        }
        for _ in range(2)
    )


def formulas(g, g0):
    u, v = (np.concatenate([x.numpy().ravel() for x in side]) for side in (g, g0))
    return (
        u @ v / np.linalg.norm(u) / np.linalg.norm(v),
        np.linalg.norm(u - v) / np.linalg.norm(v),
        np.linalg.norm(u) / np.linalg.norm(v),
        np.mean(np.sign(u) != np.sign(v)),
    )


def numbers(row):
    return row.cosine, row.relative_error, row.norm_ratio, row.sign_disagreement


def test_rows_per_array_block_and_in_all(two):
    a, b = two
    result = compare(a, b)
    names = [n for n in b if "proj" in n]
    assert len(names) == 21
    for block in range(3):
        rows = [r for r in result.select("array") if r.block == block]
        assert [r.name for r in rows] == list(ARRAY_NAMES)
        q = f"model.layers.{block}.self_attn.q_proj.weight"
        down = f"model.layers.{block}.mlp.down_proj.weight"
        assert numbers(rows[0]) == pytest.approx(formulas([a[q]], [b[q]]))
        assert numbers(rows[-1]) == pytest.approx(formulas([a[down]], [b[down]]))
        mine = [n for n in names if f".{block}." in n]
        (row,) = (r for r in result.select("block") if r.block == block)
        assert numbers(row) == pytest.approx(formulas([a[n] for n in mine], [b[n] for n in mine]))
    everything = formulas([a[n] for n in names], [b[n] for n in names])
    assert numbers(result.total) == pytest.approx(everything)


def test_digital_parameters_have_rows_of_their_own(two):
    a, b = two
    rows = compare(a, b).select("digital")
    assert {r.name for r in rows} == {n for n in b if "proj" not in n}
    (row,) = (r for r in rows if r.name == "lm_head.weight")
    assert numbers(row) == pytest.approx(formulas([a[row.name]], [b[row.name]]))
    assert row.block is None
    assert {r.block for r in rows if "layers.2." in r.name} == {2}


def test_a_gradient_compares_with_itself(two):
    for row in compare(two[0], two[0]).rows:
        assert numbers(row) == pytest.approx((1.0, 0.0, 1.0, 0.0))


def test_order_of_the_names_does_not_matter(two):
    a, b = two
    assert compare(dict(reversed(a.items())), b).total == compare(a, b).total


def test_zero_gradients_have_defined_rows(two):
    a, _ = two
    zero = {name: torch.zeros_like(value) for name, value in a.items()}
    both = compare(zero, zero)
    assert all(numbers(r) == (1.0, 0.0, 1.0, 0.0) for r in both.rows)
    assert numbers(compare(zero, a).total) == (0.0, 1.0, 0.0, 1.0)
    assert numbers(compare(a, zero).total) == (0.0, math.inf, math.inf, 1.0)


def test_float32_is_compared_in_double_precision():
    name = "lm_head.weight"
    big = {name: torch.full((3, 2), 1e30)}
    small = {name: torch.full((3, 2), 1e-30)}
    for g in (big, small):
        (row,) = compare(g, {name: 2 * g[name]}).rows
        assert numbers(row) == pytest.approx((1.0, 0.5, 0.5, 0.0))


def test_a_nan_is_not_hidden(two):
    a, b = two
    bad = {name: value.clone() for name, value in a.items()}
    bad["model.layers.1.mlp.up_proj.weight"][0, 0] = math.nan
    result = compare(bad, b)
    assert math.isnan(result.total.relative_error)
    assert [r.block for r in result.select("block") if math.isnan(r.cosine)] == [1]


def test_missing_names_and_other_shapes_are_refused(two):
    a, b = two
    less = {name: value for name, value in b.items() if name != "lm_head.weight"}
    for pair in ((a, less), (less, a)):
        with pytest.raises(InputError, match=r"compare: found 'lm_head\.weight' in only one"):
            compare(*pair)
    other = {**b, "model.norm.weight": torch.ones(3)}
    with pytest.raises(InputError, match=r"model\.norm\.weight: found shapes \(32,\) and \(3,\)"):
        compare(a, other)


@pytest.mark.parametrize("wrong", [None, 3, "gradient", torch.ones(2), {"lm_head.weight": 3}])
def test_what_is_no_gradient_is_refused(two, wrong):
    for pair in ((wrong, two[0]), (two[0], wrong)):
        with pytest.raises(InputError, match=r"compare: (gradient|reference): found"):
            compare(*pair)


def test_empty_gradients_are_refused():
    with pytest.raises(InputError, match="compare: gradient: found no parameter"):
        compare({}, {})


def test_parts_without_arrays_have_no_total(two):
    part = {"lm_head.weight": two[0]["lm_head.weight"]}
    result = compare(part, part)
    with pytest.raises(InputError, match="no array"):
        _ = result.total


def test_gradients_and_their_dictionaries_are_the_same(network, backprop, ideal, gradient_on):
    g = gradient_on(network, ideal, measurement="one_sided")
    assert eptsim.compare(g, backprop) == eptsim.compare(g.grads, backprop.grads)


def test_table_and_frame(two):
    result = compare(*two)
    text = str(result).splitlines()
    assert text[0].split() == ["cosine", "rel.", "error", "norm", "ratio", "sign", "dis."]
    assert len(text) == 1 + 3 * 8 + 1
    assert text[1].startswith("block 0 W_q ")
    frame = result.to_pandas()
    assert len(frame) == len(result.rows)
    assert list(frame.columns[:3]) == ["scope", "block", "name"]
    assert frame[frame.scope == "all"].cosine.item() == result.total.cosine
