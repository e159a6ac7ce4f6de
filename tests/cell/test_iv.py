"""The current-voltage laws against their formulas, and the drive they make of an amplitude."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from eptsim.base.errors import InputError
from eptsim.base.table import Table
from eptsim.cell.iv import LAWS, derivative, drive, effective_voltage_v

V = np.array([-0.7, -0.2, 0.0, 1e-9, 0.1, 0.3, 0.55, 2.0])
TABLE = Table.of([0.0, 0.2, 0.5], [0.0, 0.1, 0.7])
WANT = {
    "linear": V,
    "sinh": 0.25 * np.sinh(V / 0.25),
    "cubic": V + V**3 / 0.25**2,
    "table": np.array([-1.1, -0.1, 0.0, 5e-10, 0.05, 0.3, 0.8, 3.7]),
}
SLOPE = {
    "linear": np.ones(8),
    "sinh": np.cosh(V / 0.25),
    "cubic": 1 + 3 * V**2 / 0.25**2,
    "table": np.array([2, 2, 0.5, 0.5, 0.5, 2, 2, 2]),
}


@pytest.mark.parametrize("law", LAWS)
def test_law_and_slope(law):
    np.testing.assert_allclose(effective_voltage_v(V, law, 0.25, TABLE), WANT[law], rtol=1e-13)
    np.testing.assert_allclose(derivative(V, law, 0.25, TABLE), SLOPE[law], rtol=1e-13)


@pytest.mark.parametrize("law", LAWS)
def test_odd(law):
    np.testing.assert_array_equal(
        effective_voltage_v(-V, law, 0.25, TABLE), -effective_voltage_v(V, law, 0.25, TABLE)
    )
    np.testing.assert_array_equal(derivative(-V, law, 0.25, TABLE), derivative(V, law, 0.25, TABLE))


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("read_v", [0.05, 0.2, 0.3, 0.5, 1.0])
def test_drive_is_the_quotient_of_the_law(law, read_v):
    u = np.linspace(-1.2, 1.2, 97)
    full = effective_voltage_v(np.array(read_v), law, 0.25, TABLE)
    want = effective_voltage_v(np.clip(u, -1, 1) * read_v, law, 0.25, TABLE) / full
    got = drive(torch.from_numpy(u), read_v, law, 0.25, TABLE)
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-13, atol=1e-16)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_drive_keeps_shape_and_dtype(law, dtype):
    u = torch.linspace(-1, 1, 12).reshape(3, 4).to(dtype)
    got = drive(u, 0.3, law, 0.1, TABLE)
    assert got.shape == u.shape
    assert got.dtype == dtype
    want = drive(u.double(), 0.3, law, 0.1, TABLE)
    torch.testing.assert_close(got, want.to(dtype), rtol=0, atol=0)


BEND = st.floats(-9, 3).map(lambda power: 10.0**power)


@given(st.sampled_from(LAWS), BEND, st.lists(st.floats(-2, 2), max_size=20), st.booleans())
def test_drive_is_exact_at_the_ends_odd_and_monotone(law, bend, inner, single):
    dtype = torch.float32 if single else torch.float64
    u = torch.tensor(sorted({*inner, -1.0, 0.0, 1.0}), dtype=dtype).unique()
    got = drive(u, bend, law, 1.0, TABLE)
    for exact in (-1.0, 0.0, 1.0):
        assert got[u == exact].unique().tolist() == [exact]
    # rising but for the last bit of float64
    assert (got.diff() >= -4e-16).all()
    assert (got.abs() <= 1).all()
    torch.testing.assert_close(drive(-u, bend, law, 1.0, TABLE), -got, rtol=0, atol=0)


def test_drive_of_a_law_that_hardly_bends_is_linear():
    u = torch.linspace(-1, 1, 101, dtype=torch.float64)
    for law in ("sinh", "cubic"):
        for bend in (1e-9, 1e-30, 5e-324):
            torch.testing.assert_close(drive(u, bend, law, 1.0), u, rtol=1e-15, atol=0)


def test_drive_of_a_law_that_bends_a_thousandfold():
    u = torch.tensor([0.0, 0.5, 0.999, 1.0], dtype=torch.float64)
    got = drive(u, 1000.0, "sinh", 1.0)
    # sinh(u a) / sinh(a) = exp(a (u - 1)) to 1e-217
    np.testing.assert_allclose(got, [0.0, math.exp(-500), math.exp(-1), 1.0], rtol=1e-12)


VOLTS = st.floats(-1e12, 1e12)
POSITIVE = st.floats(5e-324, 1e12)


@given(st.sampled_from(LAWS), VOLTS, POSITIVE)
def test_extremes_give_numbers(law, volts, v0):
    v = np.array([volts])
    effective = effective_voltage_v(v, law, v0, TABLE)[0]
    assert effective == 0 or np.sign(effective) == np.sign(volts)
    assert not np.isnan(effective)
    assert derivative(v, law, v0, TABLE)[0] > 0


@given(st.sampled_from(LAWS), st.floats(-1e300, 1e300), POSITIVE, POSITIVE)
def test_extremes_of_a_drive_give_numbers(law, u, read_v, v0):
    got = drive(torch.tensor([u], dtype=torch.float64), read_v, law, v0, TABLE)
    assert -1 <= got.item() <= 1


def test_the_sinh_goes_on_where_exp_overflows():
    v = np.array([649.0, 650.0, 651.0, 1e4])
    got = effective_voltage_v(v, "sinh", 1.0)
    assert np.isfinite(got).all()
    assert (np.diff(got) > 0).all()


@pytest.mark.parametrize(
    ("law", "v0", "table", "message"),
    [
        ("sinus", 1.0, None, "Did you mean 'sinh'"),
        ("sinh", None, None, "found v0 = None"),
        ("cubic", 0.0, None, "found v0 = 0.0"),
        ("table", None, None, "found no table"),
        ("table", None, Table.of([0, 1], [0.1, 1]), "rises strictly"),
        ("table", None, Table.of([-1, 1], [-1, 1]), "rises strictly"),
        ("table", None, Table.of([0, 1, 2], [0, 1, 1]), "rises strictly"),
    ],
)
def test_refusals(law, v0, table, message):
    for call in (effective_voltage_v, derivative):
        with pytest.raises(InputError, match=message):
            call(V, law, v0, table)
    with pytest.raises(InputError, match=message):
        drive(torch.zeros(2), 0.1, law, v0, table)


@pytest.mark.parametrize("read_v", [0.0, -1.0, math.nan, math.inf])
def test_a_read_voltage_that_cannot_be(read_v):
    with pytest.raises(InputError, match="read voltage"):
        drive(torch.zeros(2), read_v, "linear")
