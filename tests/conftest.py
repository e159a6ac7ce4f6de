"""One thread for the small matrices of the tests: two that wait for each other are slower."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import h5py
import numba
import pytest
import torch

from eptsim.base.sealed import SEAL_LENGTH, append_seal


@pytest.fixture(autouse=True, scope="session")
def _one_thread():
    torch.set_num_threads(1)
    numba.set_num_threads(1)


@pytest.fixture(scope="session")
def edited() -> Callable[[Path], AbstractContextManager[h5py.File]]:
    """``with edited(path) as file``: change a sealed HDF5 file as nobody should, and seal it."""

    @contextmanager
    def edit(path: Path) -> Iterator[h5py.File]:
        path.write_bytes(path.read_bytes()[:-SEAL_LENGTH])
        with h5py.File(path, "r+") as file:
            yield file
        append_seal(path)

    return edit
