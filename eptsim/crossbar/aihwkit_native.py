"""aihwkit, imported when it is used, and its random generators, addressed like eptsim's.

aihwkit draws in two ways. Its tiles in torch use torch's global generator: here always inside a
fork of it that starts from the address of the draw. Its C++ tiles hold a table of 32,768 normals,
filled from the clock when the tile is made, and index it with the C library's ``rand``. Python
reaches the second with ``srand``, but aihwkit's bindings leave out ``setRandomSeed``, which fills
the table; the library exports it, so it is called there, after checking that the pointer behind
the Python object is that of a tile. Addressing both, table and index, also takes away the bias of
one fixed table: averages over many reads converge to their mean.
"""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch

from eptsim.base.errors import InputError
from eptsim.base.versions import AIHWKIT_TORCH, aihwkit_advice, matches

#: Vectors that share one table of normals: filling one takes as long as reading tens of vectors.
ROWS_PER_TABLE = 64
#: Flags of a simulator tile's forward and backward: no bias, nothing transposed, a test (not
#: training, which aihwkit disturbs on purpose), and blocking.
FORWARD = (False, False, False, True, False)
BACKWARD = (False, False, False, False)
_SET_SEED = "_ZN3RPU9RPUSimpleIfE13setRandomSeedEj"
_TILES = (b"_ZTVN3RPU9RPUPulsedIfEE", b"_ZTVN3RPU9RPUSimpleIfEE")


class _Symbol(ctypes.Structure):
    """Dl_info of dladdr(3)."""

    _fields_ = (
        ("file", ctypes.c_char_p),
        ("base", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("address", ctypes.c_void_p),
    )


@cache
def require_aihwkit() -> None:
    """Raise InputError, naming the versions that match, unless aihwkit reads a tile right."""
    try:
        installed = version("aihwkit")
    except PackageNotFoundError as error:
        known, release = next(iter(AIHWKIT_TORCH.items()))
        raise InputError(
            f"aihwkit: found none installed, allowed: aihwkit {known} with torch {release}: "
            f"pip install 'eptsim[aihwkit]', or pip install 'aihwkit=={known}' "
            f"'torch=={release}.*'."
        ) from error
    advice = aihwkit_advice(installed, torch.__version__)
    built = AIHWKIT_TORCH.get(installed)
    if built is None or not matches(torch.__version__, built):
        raise InputError(
            f"aihwkit: found {installed} with torch {torch.__version__}, which do not belong "
            f"together; {advice}."
        )
    try:
        from aihwkit.simulator.configs import FloatingPointRPUConfig

        tile = FloatingPointRPUConfig().create_tile(2, 2)
        tile.set_weights(torch.eye(2))
        found = tile.tile.forward(torch.eye(2), *FORWARD)
    except (ImportError, OSError, RuntimeError, ValueError, TypeError) as error:
        raise InputError(f"aihwkit: {installed} does not run: {error}; {advice}.") from error
    if not torch.equal(found, torch.eye(2)):
        raise InputError(f"aihwkit: {installed} does not read a tile right; {advice}.")


def word(*address: object) -> int:
    """A seed in 1 .. 2^31 - 2 that is a function of ``address`` alone."""
    text = "\x1f".join(str(part) for part in address).encode()
    digest = hashlib.blake2b(text, digest_size=8).digest()
    return int.from_bytes(digest, "little") % (2**31 - 2) + 1


def in_cpp(simulator: object) -> bool:
    """Whether ``simulator``, a tile's innermost object, is one of aihwkit's C++ tiles."""
    from aihwkit.simulator.rpu_base import tiles

    return isinstance(simulator, tiles.FloatingPointTile)


@cache
def _libraries() -> tuple[Any, Any]:
    from aihwkit.simulator import rpu_base

    library, c = ctypes.CDLL(rpu_base.__file__), ctypes.CDLL(None)
    try:
        set_seed = library[_SET_SEED]
        c.dladdr.argtypes = [ctypes.c_void_p, ctypes.POINTER(_Symbol)]
        c.srand.argtypes = [ctypes.c_uint]
        c.srand.restype = None
    except AttributeError as error:
        raise _unseedable() from error
    set_seed.argtypes, set_seed.restype = [ctypes.c_void_p, ctypes.c_uint], None
    return set_seed, c


def _unseedable() -> InputError:
    known, release = next(iter(AIHWKIT_TORCH.items()))
    return InputError(
        "aihwkit: found a build whose noise cannot be seeded, allowed: the wheel of aihwkit "
        f"{known} for Linux: pip install --force-reinstall --only-binary aihwkit "
        f"'aihwkit=={known}' 'torch=={release}.*'."
    )


def fill_table(simulator: object, seed: int) -> None:
    """Fill the table of normals of a C++ tile from ``seed``, and start ``rand`` there too."""
    set_seed, c = _libraries()
    if not in_cpp(simulator):
        raise _unseedable()
    # pybind11 keeps the pointer to the C++ object right behind the head of the Python object
    pointer = ctypes.c_void_p.from_address(id(simulator) + object.__basicsize__).value
    table = None if pointer is None else ctypes.c_void_p.from_address(pointer).value
    symbol = _Symbol()
    if not table or not c.dladdr(table, ctypes.byref(symbol)) or symbol.name not in _TILES:
        raise _unseedable()
    set_seed(pointer, seed)


def start_rand(seed: int) -> None:
    """Start the C library's ``rand``, with which C++ tiles index their table, at ``seed``."""
    _libraries()[1].srand(seed)


@contextmanager
def torch_seed(seed: int) -> Iterator[None]:
    """Torch's global CPU generator at ``seed``, put back afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield
