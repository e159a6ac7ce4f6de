"""The suite finds transposed reads that see other conductances, or the wrong side."""

import pytest

from eptsim.testing.adjointness import FLAWS
from eptsim.testing.bench import MAPPINGS
from eptsim.testing.factories import ArrayScaled, eptsim_crossbar

IDEAL_CELLS = (
    "array.wire_word_ohm", "array.wire_bit_ohm", "array.driver_ohm", "array.sense_ohm",
    "array.clip_percentile", "cell.levels", "cell.programming.sigma", "cell.programming.table",
    "cell.programming.verify_tolerance", "cell.drift.nu", "cell.drift.nu_sigma",
    "cell.retention.tau_s", "cell.stuck.low", "cell.stuck.high", "cell.stuck.random",
    "cell.spread.g_min", "cell.spread.g_max", "cell.flicker.sigma",
)  # fmt: skip


class Sideways(ArrayScaled):
    """Square arrays answer the transposed read with W d."""

    def read_transpose(self, d, **keywords):
        if self.shape[0] == self.shape[1]:
            return self.read(d, **keywords)
        return super().read_transpose(d, **keywords)


class Crashing(ArrayScaled):
    """As a simulator whose transposed read multiplies by W whatever the shape."""

    def read_transpose(self, d, **keywords):
        return self.read(d, **keywords)


class TwoArrays(ArrayScaled):
    """Reads transposed from another array."""

    def __init__(self, inside, other):
        super().__init__(inside, 1.0)
        self.other = other

    def read_transpose(self, d, **keywords):
        return self.other.read_transpose(d, **keywords)


def another_chip(weight, card, seed):
    arrays = [eptsim_crossbar(weight, card, seed + k) for k in (0, 1)]
    return TwoArrays(*arrays)


def ideal_transpose(weight, card, seed):
    clean = dict.fromkeys(IDEAL_CELLS) | {"array.slices": 1}
    return TwoArrays(
        eptsim_crossbar(weight, card, seed), eptsim_crossbar(weight, card.override(clean), seed)
    )


def wrapped(kind):
    return lambda weight, card, seed: kind(eptsim_crossbar(weight, card, seed), 1.0)


@pytest.mark.parametrize("check", ["none", "levels", "every-flaw", "all-offset"])
def test_a_square_array_read_sideways_is_found(catches, check):
    catches(f"adjointness/{check}", wrapped(Sideways), eptsim_crossbar)


def test_a_crash_on_non_square_arrays_is_found(run_one):
    row = run_one("adjointness/every-flaw", wrapped(Crashing))
    assert row.status == "error"
    assert "read: x" in row.detail


@pytest.mark.parametrize("flaw", sorted(set(FLAWS) - {"none"}))
def test_a_transposed_read_without_the_flaw_is_found(catches, flaw):
    catches(f"adjointness/{flaw}", ideal_transpose, eptsim_crossbar)


@pytest.mark.parametrize("flaw", ["programming", "stuck", "spread", "all-differential"])
def test_a_transposed_read_of_other_cells_is_found(catches, flaw):
    catches(f"adjointness/{flaw}", another_chip, eptsim_crossbar)


@pytest.mark.parametrize("mapping", MAPPINGS)
def test_all_flaws_but_none_transposed_is_found(catches, mapping):
    catches(f"adjointness/all-{mapping}", ideal_transpose, eptsim_crossbar)
