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
    assert {row.check.id for row in report.of("passed")} >= {f"knobs/{k}" for k in AIHWKIT_ENTRIES}


@pytest.mark.parametrize("topic", ["exactness/*", "refusals/*", "converters/stage"])
def test_aihwkit_passes_the_cheap_ones(topic):
    report = conformance(aihwkit_crossbar, only=topic, slow=False)
    assert report.passed, report.text()


def test_ids_are_unique_and_every_check_says_what_it_claims():
    assert len({check.id for check in CHECKS}) == len(CHECKS)
    assert all(check.claim.endswith(".") and check.truth for check in CHECKS)


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
