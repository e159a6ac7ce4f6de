"""Exactness, adjointness, stored weight, ranges and refusals of one array."""

import re

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from eptsim.base.errors import CardError, EptsimError, InputError
from eptsim.crossbar.crossbar import Crossbar

DTYPES = (torch.float32, torch.float64)
MAPPINGS = ("differential", "reference_column", "offset")
W = torch.randn(11, 17, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
EPS = {torch.float32: 2.0**-23, torch.float64: 2.0**-52}


def randn(*shape, dtype=torch.float64, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def assert_product(got, w, x):
    """``got`` is w x to the rounding of a sum: a few eps times sum |w| |x|."""
    want, size = x.double() @ w.double().T, x.double().abs() @ w.double().abs().T
    assert got.dtype == x.dtype
    assert ((got.double() - want).abs() <= 8 * EPS[x.dtype] * size + 1e-300).all()


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (9, 1), (64, 64), (130, 70), (70, 1300)])
@pytest.mark.parametrize("lead", [(), (1,), (20,), (2, 3), (2, 0, 3), (0,), (2, 1, 3, 2)])
def test_the_ideal_card_reads_exactly(ideal, lead, shape, dtype, fused):
    w = randn(*shape, dtype=dtype)
    array = Crossbar(w, ideal, fused=fused)
    x, d = randn(*lead, shape[1], dtype=dtype), randn(*lead, shape[0], dtype=dtype)
    y, b = array.read(x), array.read_transpose(d)
    assert (y.shape, b.shape) == ((*lead, shape[0]), (*lead, shape[1]))
    assert_product(y, w, x)
    assert_product(b, w.T, d)


def test_float64_is_exact_to_1e_14(ideal):
    w, x = randn(300, 1500), randn(40, 1500)
    want = x @ w.T
    assert (Crossbar(w, ideal).read(x) - want).norm() < 1e-14 * want.norm()


@pytest.mark.parametrize("changes", [{}, {"forward.gain": 1e-12}])  # exact and general path
@pytest.mark.parametrize("dtype", DTYPES)
def test_any_layout_of_the_input(ideal, dtype, changes):
    w, array = W.to(dtype), Crossbar(W.to(dtype), ideal.override(changes))
    base = randn(34, 12, dtype=dtype)
    inputs = [base.T[:, ::2], base[:17].T, base[::2].T, base[3, 0].expand(5, 17)]
    for x in inputs:
        before = x.clone()
        want = x.contiguous() @ w.T
        torch.testing.assert_close(array.read(x), want)
        assert torch.equal(x, before)
    leaf = randn(3, 17, dtype=dtype).requires_grad_()
    y = array.read(leaf)
    assert not y.requires_grad
    torch.testing.assert_close(y, leaf.detach() @ w.T)
    with torch.inference_mode():
        torch.testing.assert_close(array.read(leaf), leaf @ w.T)


def test_a_read_returns_memory_of_its_own(ideal):
    array = Crossbar(W, ideal)
    x = randn(3, 17)
    y = array.read(x)
    y.zero_()
    torch.testing.assert_close(array.read(x), x @ W.T)
    array.weight().zero_()
    torch.testing.assert_close(array.read(x), x @ W.T)


def test_the_weight_is_copied(ideal):
    w = torch.nn.Parameter(W.clone())
    array = Crossbar(w, ideal)
    with torch.no_grad():
        w.zero_()
    torch.testing.assert_close(array.read(torch.eye(17, dtype=torch.float64)), W.T)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "view", [lambda w: w.T, lambda w: w[::2, 1::3], lambda w: w[:1].expand(4, -1)]
)
def test_any_layout_of_the_weight(ideal, view, dtype):
    w = view(W.to(dtype))
    torch.testing.assert_close(Crossbar(w, ideal).weight(), w.contiguous())


@pytest.mark.parametrize("mapping", MAPPINGS)
def test_weight_is_what_both_reads_see(flawed, mapping):
    """Unit vectors through quiet lines pick out columns and rows of the stored matrix."""
    quiet = {"cell.read_noise.law": "none", "cell.read_noise.sigma": 0.0}
    for d in ("forward", "transpose"):
        for key in ("dac_bits", "adc_bits", "input_range", "output_range"):
            quiet[f"{d}.{key}"] = None
        quiet |= {f"{d}.{key}": 0.0 for key in ("offset", "gain", "line_noise")}
    array = Crossbar(W, flawed(mapping, quiet))
    stored = array.weight()
    assert (stored - W).norm() > 0.02 * W.norm()
    torch.testing.assert_close(array.read(torch.eye(17, dtype=torch.float64)).T, stored)
    torch.testing.assert_close(array.read_transpose(torch.eye(11, dtype=torch.float64)), stored)


@settings(max_examples=20, deadline=None)
@given(
    st.integers(1, 60), st.integers(1, 60), st.none() | st.integers(1, 70),
    st.none() | st.integers(1, 70), st.sampled_from(MAPPINGS), st.integers(0, 5), st.booleans(),
)  # fmt: skip
def test_the_transposed_read_is_the_adjoint(
    flawed, out, inner, rows, columns, mapping, seed, fused
):
    """<d, W x> = <W^T d, x> with all flaws of the cells on."""
    changes = {"array.rows": rows, "array.columns": columns}
    changes |= {"cell.read_noise.law": "none", "cell.read_noise.sigma": 0.0}
    for d in ("forward", "transpose"):
        changes |= {f"{d}.{k}": None for k in ("dac_bits", "adc_bits", "input_range")}
        changes |= {f"{d}.{k}": 0.0 for k in ("offset", "gain", "line_noise")}
        changes[f"{d}.output_range"] = 1e6  # never reached, but off the exact path
    w, x, d = randn(out, inner), randn(8, inner, seed=1), randn(8, out, seed=2)
    array = Crossbar(w, flawed(mapping, changes), seed=seed, fused=fused)
    left = (d * array.read(x)).sum(dim=1)
    right = (array.read_transpose(d) * x).sum(dim=1)
    size = (d.abs() @ array.weight().abs() * x.abs()).sum(dim=1)
    assert ((left - right).abs() <= 1e-13 * size).all()


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("policy", ["per_vector", "fixed", "held"])
def test_a_clipped_sample_changes_no_other(flawed, policy, fused):
    w, x = randn(20, 30), randn(9, 30)
    loud = x.clone()
    loud[4] *= 1e4
    results = []
    for batch in (x, loud):
        array = Crossbar(w, flawed(), range_policy=policy, fused=fused)
        array.hold_range("forward", 1.0)
        results.append(array.read(batch))
    others = [0, 1, 2, 3, 5, 6, 7, 8]
    assert torch.equal(results[0][others], results[1][others])
    assert torch.isfinite(results[1]).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("fused", [True, False])
def test_an_all_zero_vector_is_driven_at_range_one(ideal, dtype, fused):
    card = ideal.override({"forward.dac_bits": 4, "forward.offset": 0.01})
    array = Crossbar(W.to(dtype), card, fused=fused)
    y = array.read(torch.zeros(2, 17, dtype=dtype))
    want = array.stage("forward").offset[0] * W.abs().max().to(dtype)
    torch.testing.assert_close(y, want.expand(2, -1))


def test_ranges_are_kept_per_direction(ideal):
    array = Crossbar(W, ideal.override({"forward.dac_bits": 8, "transpose.dac_bits": 8}))
    array.hold_range("forward", 2.0)
    assert (array.held_range("forward"), array.held_range("transpose")) == (2.0, None)
    array.read(randn(2, 17), range_policy="held")
    with pytest.raises(InputError, match=r"'crossbar' has no transpose range yet"):
        array.read_transpose(randn(2, 11), range_policy="held")
    array.hold_range("forward", None)
    with pytest.raises(InputError, match="no forward range"):
        array.read(randn(2, 17), range_policy="held")


def test_the_input_range_limits_a_held_range(ideal):
    card = ideal.override({"forward.dac_bits": 8, "forward.input_range": 0.5})
    array, x = Crossbar(W, card), randn(4, 17)
    array.hold_range("forward", 3.0)
    held, fixed = (array.read(x, range_policy=p) for p in ("held", "fixed"))
    assert torch.equal(held, fixed)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("mapping", MAPPINGS)
def test_an_all_zero_matrix_and_a_single_cell(flawed, mapping, fused, dtype):
    for w in (torch.zeros(6, 4, dtype=dtype), torch.full((1, 1), -2.5, dtype=dtype)):
        array = Crossbar(w, flawed(mapping), fused=fused)
        for result in (array.read(randn(3, w.shape[1], dtype=dtype)), array.weight()):
            assert torch.isfinite(result).all()
        assert torch.isfinite(array.read_transpose(randn(3, w.shape[0], dtype=dtype))).all()


def test_segments(ideal):
    array = Crossbar(W, ideal.override({"array.rows": 5, "array.columns": 4}))
    assert (array.segments("forward"), array.segments("transpose")) == (4, 3)
    assert array.stage("forward").offset.shape == (4, 11)
    assert array.zero_reference("transpose", 2).shape == (3, 17)


BAD_READS = {
    "a list": ([1.0] * 17, "list"),
    "numpy": (np.zeros(17), "ndarray"),
    "none": (None, "NoneType"),
    "scalar": (torch.tensor(1.0, dtype=torch.float64), r"shape \(\)"),
    "out instead of in": (randn(3, 11), r"found shape \(3, 11\), allowed: \(..., 17\)"),
    "float32": (randn(3, 17).float(), "torch.float32"),
    "integers": (torch.ones(3, 17, dtype=torch.int64), "torch.int64"),
    "another device": (torch.zeros(3, 17, dtype=torch.float64, device="meta"), "meta"),
    "sparse": (torch.zeros(3, 17, dtype=torch.float64).to_sparse(), "sparse"),
    "nan": (torch.full((3, 17), torch.nan, dtype=torch.float64), "NaN or infinity"),
    "infinity": (torch.full((3, 17), -torch.inf, dtype=torch.float64), "NaN or infinity"),
}


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("changes", [{}, {"forward.dac_bits": 4}, {"forward.gain": 0.1}])
@pytest.mark.parametrize("case", BAD_READS)
def test_bad_inputs_are_refused(ideal, case, changes, fused):
    x, message = BAD_READS[case]
    array = Crossbar(W, ideal.override(changes), path="layers.0.w1", fused=fused)
    with pytest.raises(InputError, match=message):
        array.read(x)
    if message.startswith("NaN"):
        with pytest.raises(InputError, match=re.escape("'layers.0.w1'")):
            array.read(x)


BAD_WEIGHTS = {
    "list": [[1.0]],
    "numpy": np.ones((2, 2)),
    "empty": torch.zeros(0, 3),
    "no lines": torch.zeros(3, 0),
    "vector": torch.zeros(3),
    "batch": torch.zeros(2, 3, 4),
    "integer": torch.ones(2, 2, dtype=torch.int64),
    "half": torch.ones(2, 2, dtype=torch.float16),
    "complex": torch.ones(2, 2, dtype=torch.complex64),
    "sparse": torch.eye(3).to_sparse(),
    "meta": torch.zeros(2, 2, device="meta"),
    "nan": torch.tensor([[1.0, torch.nan]]),
    "infinity": torch.tensor([[1.0, torch.inf]]),
}


@pytest.mark.parametrize("case", BAD_WEIGHTS)
def test_bad_weights_are_refused(ideal, case):
    with pytest.raises(InputError, match="weight: found"):
        Crossbar(BAD_WEIGHTS[case], ideal)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"seed": -1}, "seed: found -1"),
        ({"seed": 1.5}, "seed: found 1.5"),
        ({"seed": None}, "seed: found None"),
        ({"card": "pcm_mushroom"}, "card: found str"),
        ({"path": 3}, "path: found 3"),
        ({"range_policy": "per_vectr"}, "Did you mean 'per_vector'"),
    ],
)
def test_bad_arguments_are_refused(ideal, arguments, message):
    with pytest.raises(InputError, match=message):
        Crossbar(**{"weight": W, "card": ideal, **arguments})


def test_bad_arguments_of_methods_are_refused(flawed):
    array, x = Crossbar(W, flawed()), randn(3, 17)
    zero = array.zero_reference("forward", 2)
    assert zero.shape == (3, 11)
    calls = [
        lambda: array.read(x, range_policy="batch"),
        lambda: array.read(x, range_policy="held"),
        lambda: array.read(x, reference=zero[:1]),
        lambda: array.read(x, reference=zero.float()),
        lambda: array.read(x, reference=zero.tolist()),
        lambda: array.read_transpose(randn(3, 11), reference=zero),
        lambda: array.zero_reference("sideways", 1),
        lambda: array.stage("up"),
        lambda: array.segments("up"),
        lambda: array.held_range("up"),
        lambda: array.hold_range("up", 1.0),
    ]
    calls += [
        lambda v=v: array.hold_range("forward", v)
        for v in (0.0, -1.0, float("inf"), float("nan"), 1e400, "1", True)
    ]
    calls += [lambda v=v: array.zero_reference("forward", v) for v in (0, -3, 1.5, "2", True)]
    for call in calls:
        with pytest.raises(InputError, match=r"found|range yet"):
            call()


def test_fused_needs_no_choice_on_the_cpu(ideal):
    x = randn(3, 17)
    assert torch.equal(Crossbar(W, ideal).read(x), Crossbar(W, ideal, fused=True).read(x))


def test_errors_are_value_errors():
    assert issubclass(CardError, InputError)
    assert issubclass(InputError, ValueError)
    assert issubclass(InputError, EptsimError)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("mapping", MAPPINGS)
def test_cuda_reads_as_the_cpu_does(flawed, mapping):
    changes = {f"{d}.adc_bits": None for d in ("forward", "transpose")}
    card = flawed(mapping, changes)
    here, there = Crossbar(W, card, fused=False), Crossbar(W.cuda(), card)
    x, d = randn(5, 17), randn(5, 11)
    torch.testing.assert_close(there.read(x.cuda()).cpu(), here.read(x), rtol=0, atol=1e-4)
    got = there.read_transpose(d.cuda()).cpu()
    torch.testing.assert_close(got, here.read_transpose(d), rtol=0, atol=1e-4)
    with pytest.raises(InputError, match="fused"):
        Crossbar(W.cuda(), card, fused=True)
