"""What cannot be read is refused with an error, never answered with NaN or a guess."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import torch

from eptsim.base.errors import CardError
from eptsim.crossbar.interface import CrossbarLike
from eptsim.testing.bench import DIRECTIONS, Bench, drives, read
from eptsim.testing.check import Check, Measured, both, count
from eptsim.testing.invariance import harshest

OUT, IN = 9, 16
TRUTH = "ValueError or TypeError"


def _taken(call: Callable[..., object], *arguments: object) -> bool:
    """Whether ``call`` returned instead of raising ValueError or TypeError."""
    try:
        call(*arguments)
    except (ValueError, TypeError):
        return False
    return True


def _arrays(bench: Bench) -> tuple[CrossbarLike, CrossbarLike]:
    """An ideal crossbar (out, in) and one with flaws."""
    return bench.build(bench.weight(OUT, IN)), harshest(bench)[0]


def _not_finite(bench: Bench, direction: str) -> Iterator[Measured]:
    for name, array in zip(("ideal", "flawed"), _arrays(bench), strict=True):
        for bad in (float("nan"), float("inf"), float("-inf")):
            x = bench.normal(20, drives((OUT, IN), direction), seed=1)
            x[13, 4] = bad
            taken = _taken(read, array, direction, x)
            yield count(f"{name}: {bad} was read", taken)


def _wrong_shape(bench: Bench, direction: str) -> Iterator[Measured]:
    inner = drives((OUT, IN), direction)
    shapes = ((3, inner + 1), (3, inner - 1), (inner, 3), (), (3, 1))
    for name, array in zip(("ideal", "flawed"), _arrays(bench), strict=True):
        for shape in shapes:
            x = bench.tensor(np.ones(shape))
            taken = _taken(read, array, direction, x)
            yield count(f"{name}: shape {shape} was read", taken)


def _wrong_kind(bench: Bench, direction: str) -> Iterator[Measured]:
    inner = drives((OUT, IN), direction)
    other = torch.float64 if bench.dtype == torch.float32 else torch.float32
    things: list[object] = [
        torch.ones(2, inner, dtype=kind, device=bench.device)
        for kind in (other, torch.float16, torch.int64, torch.bool, torch.complex64)
    ]
    things += [np.ones((2, inner)), [[1.0] * inner], None, "x"]
    for name, array in zip(("ideal", "flawed"), _arrays(bench), strict=True):
        for x in things:
            kind = x.dtype if isinstance(x, torch.Tensor) else type(x).__name__
            yield count(f"{name}: {kind} was read", _taken(read, array, direction, x))


def _policy(bench: Bench) -> Iterator[Measured]:
    array = bench.build(bench.weight(OUT, IN), {"forward.dac_bits": 6, "transpose.dac_bits": 6})
    for direction in DIRECTIONS:
        x = bench.normal(2, drives((OUT, IN), direction))
        for name in ("per-vector", "", "batch"):
            taken = _taken(partial(read, array, direction, x, policy=name))
            yield count(f"{direction}: range policy {name!r} was taken", taken)
        held = _taken(partial(read, array, direction, x, policy="held"))
        yield count(f"{direction}: 'held' was read before a range was held", held)
        for value in (0.0, -1.0, float("nan"), float("inf")):
            taken = _taken(array.hold_range, direction, value)
            yield count(f"{direction}: a held range of {value} was taken", taken)


def _weight(bench: Bench) -> Iterator[Measured]:
    good = bench.weight(OUT, IN)
    bad = {
        "NaN": good.clone().index_fill_(0, torch.tensor([3], device=good.device), float("nan")),
        "infinity": good.clone().index_fill_(0, torch.tensor([3], device=good.device), torch.inf),
        "a vector": good[0],
        "an empty matrix": good[:0],
        "integers": good.long(),
        "complex numbers": good.to(torch.complex64),
    }
    card = bench.card({})
    for name, weight in bad.items():
        taken = _taken(bench.factory, weight, card, 0)
        yield count(f"a weight of {name} was taken", taken)


def _seed(bench: Bench) -> Iterator[Measured]:
    w, card = bench.weight(OUT, IN), bench.card({})
    for seed in (-1, 1.5, "1", None):
        yield count(f"the seed {seed!r} was taken", _taken(bench.factory, w, card, seed))


def _zero_bits(bench: Bench) -> Iterator[Measured]:
    for direction in DIRECTIONS:
        for key in ("dac_bits", "adc_bits"):
            try:
                bench.card({f"{direction}.{key}": 0})
            except CardError:
                taken = False
            else:
                taken = True
            yield count(f"{direction}.{key} = 0 was taken", taken)


def _overflow(bench: Bench, direction: str) -> Iterator[Measured]:
    """The largest numbers of the dtype: finite, or refused."""
    top = float(torch.finfo(bench.dtype).max)
    for name, array in zip(("ideal", "flawed"), _arrays(bench), strict=True):
        for size in (0.9 * top, 1e-3 * top, float(torch.finfo(bench.dtype).tiny)):
            x = size * torch.sign(bench.normal(4, drives((OUT, IN), direction)))
            try:
                y = read(array, direction, x)
            except (ValueError, TypeError):
                y = torch.zeros(1)
            yield count(f"{name}: inputs of {size:.1e}: NaN or infinity",
                        int((~torch.isfinite(y)).sum()))


CHECKS = (
    *both("refusals", "not-finite", "NaN and infinity are refused.", TRUTH, _not_finite),
    *both("refusals", "shape", "Vectors of another length are refused.", TRUTH, _wrong_shape),
    *both(
        "refusals", "kind", "Other dtypes than the weight's, and no tensors, are refused.", TRUTH,
        _wrong_kind,
    ),
    *both(
        "refusals", "overflow", "Inputs of any size give finite numbers or an error.",
        "finite numbers", _overflow,
    ),
    Check(
        "refusals", "range-policy",
        "Unknown range policies, unusable ranges, and 'held' without a range are refused.", TRUTH,
        _policy,
    ),
    Check("refusals", "weight", "What is no finite matrix is refused.", TRUTH, _weight),
    Check("refusals", "seed", "What is no seed is refused.", TRUTH, _seed),
    Check(
        "refusals", "zero-bits", "A converter of 0 bits is refused; no bits are ideal.",
        "CardError", _zero_bits,
    ),
)  # fmt: skip
