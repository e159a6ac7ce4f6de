"""One thread for the small matrices of the tests: two that wait for each other are slower."""

import numba
import pytest
import torch


@pytest.fixture(autouse=True, scope="session")
def _one_thread():
    torch.set_num_threads(1)
    numba.set_num_threads(1)
