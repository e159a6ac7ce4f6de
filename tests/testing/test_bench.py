import numpy as np
import pytest
import torch

from eptsim.base.errors import CardError
from eptsim.testing.bench import Bench, Refused, drives, matrix, numbers, product, rounding
from eptsim.testing.factories import eptsim_crossbar


def refuse(weight, card, seed):
    raise CardError("cell.levels: found 4, allowed: absent.")


def test_a_factory_may_refuse_a_card():
    with pytest.raises(Refused, match=r"cell\.levels"):
        Bench(refuse).build(torch.ones(2, 2), {"cell.levels": 4})


def test_a_card_that_the_suite_gets_wrong_is_no_refusal():
    with pytest.raises(CardError):
        Bench(eptsim_crossbar).build(torch.ones(2, 2), {"cell.levels": 0})


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_vectors_are_the_same_on_every_call(dtype):
    bench = Bench(eptsim_crossbar, dtype)
    assert torch.equal(bench.normal(3, 4, seed=1), bench.normal(3, 4, seed=1))
    assert not torch.equal(bench.normal(3, 4, seed=1), bench.normal(3, 4, seed=2))
    w = bench.weight(5, 6)
    assert w.dtype == dtype
    assert float(w.abs().max()) == 1.0
    assert float(bench.codes(10, 3).abs().max()) <= 1.0


def test_the_matrix_that_unit_vectors_show():
    bench = Bench(eptsim_crossbar)
    w = bench.weight(3, 5)
    array = bench.build(w)
    for direction in ("forward", "transpose"):
        np.testing.assert_allclose(matrix(bench, array, direction), numbers(w), atol=1e-6)
    assert drives((3, 5), "forward") == 5
    assert drives((3, 5), "transpose") == 3


def test_product_and_the_bound_on_its_rounding():
    bench = Bench(eptsim_crossbar)
    w, x = np.array([[1.0, 2.0]]), np.array([[3.0, -1.0]])
    assert product(w, "forward", x).tolist() == [[1.0]]
    assert product(w, "transpose", np.array([[2.0]])).tolist() == [[2.0, 4.0]]
    assert rounding(bench, w, "forward", x) == pytest.approx(18 * 5 * 2**-23)
