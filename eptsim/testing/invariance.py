"""What must not change a result: the batch, the neighbours in it, the order, other generators."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import pairwise, product

import numpy as np
import torch

from eptsim.crossbar.interface import CrossbarLike
from eptsim.crossbar.stages import Position
from eptsim.testing.bench import DIRECTIONS, POLICIES, Bench, Refused, drives, read
from eptsim.testing.check import Check, Measured, count

OUT, IN = 9, 16
TRUTH = "bits of another call"
#: Cards of growing demands; the first that the factory accepts is the one that is checked.
TILES = {"array.rows": 7, "array.columns": 5}
LINES = {
    f"{direction}.{key}": value
    for direction in DIRECTIONS
    for key, value in {
        "dac_bits": 6, "adc_bits": 8, "input_range": 1.5, "output_range": 3.0, "line_noise": 0.01,
    }.items()
}  # fmt: skip
CELLS = {"cell.read_noise.law": "constant", "cell.read_noise.sigma": 0.02}
FLAWED: dict[str, object] = {
    **TILES, **LINES, "cell.g_min_s": 1e-6, "cell.levels": 33, "cell.programming.sigma": 0.02,
    "cell.read_noise.law": "proportional", "cell.read_noise.sigma": 0.02, "cell.stuck.low": 0.02,
    "forward.offset": 0.02, "transpose.offset": 0.01, "forward.gain": 0.05,
    "transpose.gain": 0.05,
}  # fmt: skip
LEVELS: tuple[dict[str, object], ...] = (FLAWED, {**TILES, **LINES, **CELLS}, dict(LINES), {})


def harshest(
    bench: Bench, seed: int = 3, *, limited: bool = True
) -> tuple[CrossbarLike, dict[str, object]]:
    """A crossbar with as many flaws as the factory accepts, ranges held, and its card's changes.

    ``limited``: with an ``input_range``, which would hide what a policy makes of large inputs.
    """
    for level in LEVELS:
        changes = {k: v for k, v in level.items() if limited or not k.endswith(".input_range")}
        try:
            array = bench.build(bench.weight(OUT, IN), changes, seed)
            break
        except Refused:
            continue
    for direction in DIRECTIONS:
        array.hold_range(direction, 1.2)
    return array, changes


def _split(policy: str) -> Check:
    def run(bench: Bench) -> Iterator[Measured]:
        for direction, limited in product(DIRECTIONS, (True, False)):
            x = bench.normal(150, drives((OUT, IN), direction), seed=1)
            whole = read(harshest(bench, limited=limited)[0], direction, x, policy=policy)
            for cuts in ([0, 1, 150], [0, 64, 65, 150], [0, 149, 150], list(range(0, 151, 10))):
                array = harshest(bench, limited=limited)[0]
                parts = [
                    read(array, direction, x[a:b], policy=policy) for a, b in pairwise(cuts)
                ]
                wrong = int((torch.cat(parts) != whole).sum())
                yield count(f"{direction}, cut at {cuts[1:-1][:3]}: values that differ", wrong)

    claim = f"A batch read in parts gives the bits of the whole, range policy '{policy}'."
    return Check("invariance", f"split-{policy}", claim, TRUTH, run)


def _neighbours(policy: str) -> Check:
    def run(bench: Bench) -> Iterator[Measured]:
        for direction, limited in product(DIRECTIONS, (True, False)):
            x = bench.codes(12, drives((OUT, IN), direction), seed=1)
            wild = x.clone()
            wild[5] *= 1e4
            calm, clipped = (
                read(harshest(bench, limited=limited)[0], direction, batch, policy=policy)
                for batch in (x, wild)
            )
            rest = [k for k in range(12) if k != 5]
            wrong = int((calm[rest] != clipped[rest]).sum())
            yield count(f"{direction}: values of other vectors that differ", wrong)

    claim = f"One clipped vector leaves the others in its batch alone, policy '{policy}'."
    return Check("invariance", f"neighbours-{policy}", claim, TRUTH, run)


def _position(bench: Bench) -> Iterator[Measured]:
    for direction in DIRECTIONS:
        x = bench.normal(20, drives((OUT, IN), direction), seed=1)
        array, changes = harshest(bench)
        whole = read(array, direction, x)
        alone = [read(array, direction, x[k], position=Position(0, k)) for k in (7, 0, 19)]
        wrong = sum(int((whole[k] != y).sum()) for k, y in zip((7, 0, 19), alone, strict=True))
        yield count(f"{direction}: values that differ at their address", wrong)
        other = read(array, direction, x, position=Position(1, 0))
        same = bool(changes) and torch.equal(other, whole)
        yield count(f"{direction}: another read number draws the same noise", same)


def _repeats(bench: Bench) -> Iterator[Measured]:
    """The same seed twice, another one once."""
    for direction in DIRECTIONS:
        x = bench.normal(30, drives((OUT, IN), direction), seed=1)
        array, changes = harshest(bench)
        first, again = read(array, direction, x), read(harshest(bench)[0], direction, x)
        yield count(f"{direction}: values that differ", int((first != again).sum()))
        if changes:
            later = read(array, direction, x)
            yield count(f"{direction}: the next reads are the same", torch.equal(first, later))
            other = read(harshest(bench, seed=4)[0], direction, x)
            yield count(f"{direction}: another seed, the same bits", torch.equal(first, other))


def _order(bench: Bench) -> Iterator[Measured]:
    x, d = bench.normal(8, IN, seed=1), bench.normal(8, OUT, seed=2)
    one, other = harshest(bench)[0], harshest(bench)[0]
    forward, transpose = read(one, "forward", x), read(one, "transpose", d)
    turned = read(other, "transpose", d)
    yield count("transposed first: values that differ", int((turned != transpose).sum()))
    late = read(other, "forward", x)
    yield count("forward second: values that differ", int((late != forward).sum()))


def _refusal_takes_no_place(bench: Bench) -> Iterator[Measured]:
    for direction in DIRECTIONS:
        x = bench.normal(8, drives((OUT, IN), direction), seed=1)
        whole = read(harshest(bench)[0], direction, x)
        array = harshest(bench)[0]
        try:
            read(array, direction, torch.full_like(x, float("nan")))
        except (ValueError, TypeError):
            pass  # as it should
        else:
            yield count(f"{direction}: NaN was read", True)
        wrong = int((read(array, direction, x) != whole).sum())
        yield count(f"{direction}: values that differ after a refused read", wrong)


def _generators() -> tuple[bytes, bytes, object]:
    numpy_state = np.random.get_state(legacy=True)  # noqa: NPY002  # looked at, not drawn from
    assert isinstance(numpy_state, tuple)
    return torch.random.get_rng_state().numpy().tobytes(), numpy_state[1].tobytes(), (
        random.getstate(), numpy_state[2]
    )


def _untouched_generators(bench: Bench) -> Iterator[Measured]:
    x, d = bench.normal(5, IN, seed=1), bench.normal(5, OUT, seed=2)
    before = _generators()
    array = harshest(bench)[0]
    read(array, "forward", x)
    read(array, "transpose", d)
    after = _generators()
    for name, one, other in zip(("torch's", "NumPy's", "Python's"), before, after, strict=True):
        yield count(f"{name} global generator moved", one != other)


def _unseeded(bench: Bench) -> Iterator[Measured]:
    """Other states of the global generators; they are put back."""
    x = bench.normal(5, IN, seed=1)
    first = read(harshest(bench)[0], "forward", x)
    state, numpy_state = torch.random.get_rng_state(), np.random.get_state()  # noqa: NPY002
    own = random.getstate()
    try:
        torch.manual_seed(987654321)
        np.random.seed(98765)  # noqa: NPY002
        random.seed(98765)
        other = read(harshest(bench)[0], "forward", x)
    finally:
        torch.random.set_rng_state(state)
        np.random.set_state(numpy_state)  # noqa: NPY002
        random.setstate(own)
    yield count("values that follow the global generators", int((first != other).sum()))


CHECKS = (
    *(_split(policy) for policy in POLICIES),
    *(_neighbours(policy) for policy in POLICIES),
    Check(
        "invariance", "address", "A read at a given position has the bits of that position.",
        TRUTH, _position,
    ),
    Check(
        "invariance", "seed",
        "One seed makes one chip and one noise, bit for bit; another seed, others.", TRUTH,
        _repeats,
    ),
    Check(
        "invariance", "order", "Reads of one direction do not depend on those of the other.",
        TRUTH, _order,
    ),
    Check(
        "invariance", "refused-read", "A refused read takes no place in the stream.", TRUTH,
        _refusal_takes_no_place,
    ),
    Check(
        "invariance", "generators-kept", "No global generator moves.", "its state before",
        _untouched_generators,
    ),
    Check(
        "invariance", "generators-unused", "No global generator decides on a result.", TRUTH,
        _unseeded,
    ),
)  # fmt: skip
