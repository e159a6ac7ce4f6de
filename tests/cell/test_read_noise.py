"""The laws of the read noise."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eptsim.base.errors import InputError
from eptsim.base.table import Table
from eptsim.cell.read_noise import LAWS, sigma_s

G = np.array([[0.0, 1e-6], [5e-6, 2e-5]])
TABLE = Table.of([0.0, 1e-5], [1e-7, 3e-7])
WANT = {
    "none": np.zeros((2, 2)),
    "constant": np.full((2, 2), 4e-7),
    "proportional": 0.02 * G,
    "sqrt": 0.02 * np.sqrt(G * 2e-5),
    "table": np.array([[1e-7, 1.2e-7], [2e-7, 3e-7]]),
}


@pytest.mark.parametrize("law", LAWS)
def test_law(law):
    np.testing.assert_allclose(sigma_s(G, law, 0.02, 2e-5, TABLE), WANT[law], rtol=1e-13)


def test_the_scaled_laws_agree_at_the_highest_conductance():
    top = np.array([2e-5])
    for law in ("constant", "proportional", "sqrt"):
        np.testing.assert_allclose(sigma_s(top, law, 0.02, 2e-5), [4e-7], rtol=1e-13)


def test_refusals():
    with pytest.raises(InputError, match=r"read noise law: found 'sqr'.*Did you mean 'sqrt'"):
        sigma_s(G, "sqr", 0.02, 2e-5)
    with pytest.raises(InputError, match="found no table"):
        sigma_s(G, "table", 0.02, 2e-5)


@given(st.sampled_from(LAWS), st.floats(0, 1e150), st.floats(0, 1e100), st.floats(0, 1e100))
def test_extremes_give_numbers(law, g, sigma, g_max):
    got = sigma_s(np.array([g]), law, sigma, g_max, TABLE)
    assert 0 <= got[0] < np.inf
