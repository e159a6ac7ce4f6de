"""The suite finds results that depend on the batch, the neighbours, the order or the world."""

import itertools
import random

import numpy as np
import pytest
import torch

from eptsim.crossbar.stages import Position
from eptsim.testing.factories import ArrayScaled, eptsim_crossbar


class BatchRange(ArrayScaled):
    """One range for the batch: its largest magnitude, whatever the policy."""

    def read(self, x, *, range_policy=None, position=None, reference=None):
        if x.numel() and range_policy != "fixed" and bool(torch.isfinite(x).all()):
            before = self.held_range("forward")
            self.hold_range("forward", float(x.abs().max()) or 1.0)
            y = super().read(x, range_policy="held", position=position, reference=reference)
            self.hold_range("forward", before)
            return y
        return super().read(x, range_policy=range_policy, position=position, reference=reference)


class BatchLimit(ArrayScaled):
    """Divides by the largest input of the batch before it drives, and multiplies after."""

    def read(self, x, **keywords):
        top = x.abs().max().clamp(min=1.0)
        return super().read(x / top, **keywords) * top


class NoiseByCall(ArrayScaled):
    """Every call begins the noise anew."""

    def read(self, x, *, range_policy=None, position=None, reference=None):
        where = position or Position(0, 0)
        return super().read(x, range_policy=range_policy, position=where, reference=reference)


class Placeless(ArrayScaled):
    """Takes no notice of a position."""

    def read(self, x, *, range_policy=None, position=None, reference=None):
        return super().read(x, range_policy=range_policy, reference=reference)


class OneCounter(ArrayScaled):
    """Both directions count their reads together."""

    row = 0

    def _next(self, x, position):
        where = position or Position(0, self.row)
        self.row += x.reshape(-1, x.shape[-1]).shape[0] if position is None else 0
        return where

    def read(self, x, *, range_policy=None, position=None, reference=None):
        where = self._next(x, position)
        return super().read(x, range_policy=range_policy, position=where, reference=reference)

    def read_transpose(self, d, *, range_policy=None, position=None, reference=None):
        where = self._next(d, position)
        return super().read_transpose(
            d, range_policy=range_policy, position=where, reference=reference
        )


class Torch(ArrayScaled):
    def read(self, x, **keywords):
        y = super().read(x, **keywords)
        return y + 1e-3 * torch.randn(y.shape)


class NumPy(ArrayScaled):
    def read(self, x, **keywords):
        return super().read(x, **keywords) + 1e-3 * float(np.random.normal())


class Python(ArrayScaled):
    def read(self, x, **keywords):
        return super().read(x, **keywords) + 1e-3 * random.random()


class Careful(ArrayScaled):
    """Draws from torch's generator and puts its state back."""

    def read(self, x, **keywords):
        with torch.random.fork_rng(devices=[]):
            y = super().read(x, **keywords)
            return y + 1e-3 * torch.randn(y.shape)


def wrapped(kind):
    return lambda weight, card, seed: kind(eptsim_crossbar(weight, card, seed), 1.0)


def one_chip_for_all(weight, card, seed):
    return eptsim_crossbar(weight, card, 0)


CLOCK = itertools.count()


def seeded_by_the_clock(weight, card, seed):
    return eptsim_crossbar(weight, card, seed + next(CLOCK))


@pytest.mark.parametrize(
    ("check", "broken"),
    [
        ("split-per_vector", wrapped(BatchRange)),
        ("split-held", wrapped(BatchLimit)),
        ("split-fixed", wrapped(BatchLimit)),
        ("split-per_vector", wrapped(NoiseByCall)),
        ("split-fixed", wrapped(Torch)),
        ("neighbours-per_vector", wrapped(BatchRange)),
        ("neighbours-held", wrapped(BatchLimit)),
        ("neighbours-fixed", wrapped(BatchLimit)),
        ("address", wrapped(Placeless)),
        ("seed", one_chip_for_all),
        ("seed", seeded_by_the_clock),
        ("seed", wrapped(NoiseByCall)),
        ("order", wrapped(OneCounter)),
        ("refused-read", wrapped(OneCounter)),
        ("generators-kept", wrapped(Torch)),
        ("generators-kept", wrapped(NumPy)),
        ("generators-kept", wrapped(Python)),
        ("generators-unused", wrapped(Torch)),
        ("generators-unused", wrapped(Careful)),
    ],
)
def test_the_suite_finds(catches, check, broken):
    catches(f"invariance/{check}", broken, eptsim_crossbar)


def test_the_global_generators_are_put_back(run_one):
    state, numpy_state = torch.random.get_rng_state(), np.random.get_state()[1].copy()
    own = random.getstate()
    run_one("invariance/generators-unused", eptsim_crossbar)
    assert torch.equal(state, torch.random.get_rng_state())
    assert (numpy_state == np.random.get_state()[1]).all()
    assert own == random.getstate()
