"""One thread for the suite's small matrices: two that wait for each other are slower, not faster."""

import numba
import pytest
import torch


@pytest.fixture(autouse=True, scope="session")
def _one_thread():
    torch.set_num_threads(1)
    numba.set_num_threads(1)
