"""The laws of the read noise."""

import numpy as np
import pytest

from eptsim.cell.read_noise import LAWS, sigma_s

G = np.array([[0.0, 1e-6], [5e-6, 2e-5]])
WANT = {"none": np.zeros((2, 2)), "constant": np.full((2, 2), 4e-7), "proportional": 0.02 * G}


@pytest.mark.parametrize("law", LAWS)
def test_law(law):
    np.testing.assert_allclose(sigma_s(G, law, 0.02, 2e-5), WANT[law], rtol=1e-14)
