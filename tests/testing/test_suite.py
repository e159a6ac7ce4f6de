"""The suite itself, and eptsim's and aihwkit's crossbars put through it."""

import pytest
import torch

from eptsim.base.errors import CardError, InputError
from eptsim.cards import load_card
from eptsim.testing import Report, all_checks, conformance
from eptsim.testing.bench import Bench
from eptsim.testing.check import Check
from eptsim.testing.factories import AIHWKIT_ENTRIES, aihwkit_crossbar, eptsim_crossbar
from eptsim.testing.suite import run_check, select

CHECKS = all_checks()
DTYPES = (torch.float32, torch.float64)
#: Checks of more than a second on either backend.
LONG = {"invariance/split-per_vector", "invariance/split-fixed", "adjointness/flicker"}


def marked(check):
    slow = check.slow or check.id in LONG
    return pytest.param(check, id=check.id, marks=pytest.mark.slow if slow else ())


@pytest.mark.parametrize("check", [marked(check) for check in CHECKS])
def test_eptsim_passes(check):
    row = run_check(check, Bench(eptsim_crossbar))
    assert row.status == "passed", row.detail


@pytest.mark.slow
def test_eptsim_passes_in_float64():
    report = conformance(eptsim_crossbar, dtype=torch.float64)
    assert report.passed, report.text()
    assert report.counts()["refused"] == 0


@pytest.mark.slow
def test_aihwkit_passes_what_it_can_express():
    report = conformance(aihwkit_crossbar)
    assert report.passed, report.text()
    # the law is probed against one that aihwkit does not have
    knobs = {f"knobs/{key}" for key in AIHWKIT_ENTRIES} - {"knobs/cell.read_noise.law"}
    assert {row.check.id for row in report.of("passed")} >= knobs


@pytest.mark.parametrize("topic", ["exactness/*", "refusals/*", "converters/stage"])
def test_aihwkit_passes_the_cheap_ones(topic):
    report = conformance(aihwkit_crossbar, only=topic, slow=False)
    assert report.passed, report.text()


def test_ids_are_unique_and_every_check_says_what_it_claims():
    assert len({check.id for check in CHECKS}) == len(CHECKS)
    assert all(check.claim.endswith(".") and check.truth for check in CHECKS)


class Matrix:
    """Somebody else's crossbar: a matrix, and the least that the suite asks of an object."""

    path, device = "matrix", torch.device("cpu")

    def __init__(self, weight, card, seed):
        if card != load_card("ideal"):
            raise CardError("I am ideal")
        if weight.dim() != 2 or 0 in weight.shape or weight.dtype not in DTYPES:
            raise ValueError("weight")
        if not torch.isfinite(weight).all():
            raise ValueError("weight")
        self.w, self.shape, self.dtype = weight.clone(), tuple(weight.shape), weight.dtype

    def _read(self, x, w, range_policy):
        if range_policy not in (None, "per_vector", "fixed", "held"):
            raise ValueError("range_policy")
        if not isinstance(x, torch.Tensor) or x.dtype != self.dtype:
            raise TypeError("dtype")
        if x.dim() < 1 or x.shape[-1] != w.shape[1] or not torch.isfinite(x).all():
            raise ValueError("x")
        y = torch.stack([w @ row for row in x.reshape(-1, w.shape[1])] or [w[:, 0]])
        y = y if x.numel() else y[:0]
        if not torch.isfinite(y).all():
            raise ValueError("overflow")
        return y.reshape(*x.shape[:-1], w.shape[0])

    def read(self, x, *, range_policy=None, position=None, reference=None):
        return self._read(x, self.w, range_policy)

    def read_transpose(self, d, *, range_policy=None, position=None, reference=None):
        return self._read(d, self.w.T, range_policy)

    def hold_range(self, direction, value):
        if value is not None and not 0 < value < float("inf"):
            raise ValueError("range")

    def weight(self):
        return self.w.clone()


def test_an_independent_ideal_crossbar_passes():
    topics = ("exactness/*", "adjointness/none", "invariance/*", "refusals/*", "knobs/*")
    report = conformance(Matrix, only=topics)
    failed = {row.check.id for row in report.rows if not row.ok}
    assert failed == {"refusals/seed"}, report.text()  # it has no use for a seed
    assert report.counts()["refused"] > 50


def test_patterns_choose_and_a_pattern_that_fits_nothing_is_refused():
    assert [check.id for check in select("exactness/zero-*")] == [
        "exactness/zero-forward", "exactness/zero-transpose"
    ]
    assert len(select(["knobs/cell.levels", "noise/million"])) == 2
    with pytest.raises(InputError, match="which no check fits"):
        conformance(eptsim_crossbar, only="exactnes/*")


def test_slow_checks_can_be_left_out():
    assert conformance(eptsim_crossbar, only="noise/million", slow=False) == Report(())


def test_progress_is_told_after_each_check():
    told = []
    conformance(
        eptsim_crossbar, only="exactness/zero-*", progress=lambda row, n, of: told.append((n, of))
    )
    assert told == [(1, 2), (2, 2)]


def test_whatever_is_raised_is_in_the_report():
    def crash(weight, card, seed):
        raise RuntimeError("out of chips")

    def refuse(weight, card, seed):
        raise CardError("no")

    def only_ideal(weight, card, seed):
        return eptsim_crossbar(weight, card, seed) if card == ideal else refuse(weight, card, seed)

    ideal = load_card("ideal")

    (row,) = conformance(crash, only="exactness/copies").rows
    assert row.status == "error"
    assert "out of chips" in row.detail
    (row,) = conformance(only_ideal, only="exactness/mapping-offset").rows
    assert (row.status, row.detail) == ("refused", "no")
    (row,) = conformance(refuse, only="exactness/copies").rows  # nobody may refuse the ideal card
    assert row.status == "error"
    assert not conformance(refuse).passed
    assert conformance(only_ideal).passed
    empty = Check("t", "n", "c", "t", lambda bench: [])
    assert run_check(empty, Bench(crash)).status == "error"
