"""The table in docs/conformance.md is the one that the suite writes today."""

import re
from pathlib import Path

import pytest
import torch

from eptsim.testing.bench import Bench
from eptsim.testing.factories import aihwkit_crossbar, eptsim_crossbar
from eptsim.testing.suite import all_checks, run_check

PAGE = Path(__file__).parents[2] / "docs" / "conformance.md"
COLUMNS = (
    (eptsim_crossbar, torch.float32), (eptsim_crossbar, torch.float64),
    (aihwkit_crossbar, torch.float32),
)  # fmt: skip
#: Cheap on all backends, and of every outcome.
CHEAP = ("refusals/", "knobs/", "circuits/", "converters/stage", "exactness/mapping", "flaws/gain")


@pytest.fixture(scope="module")
def table():
    cells = re.findall(r"^\| `([^`]+)` \| (.*) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return {identity: rest.split(" | ") for identity, rest in cells}


def test_every_check_is_there_with_its_claim(table):
    assert {check.id: [check.claim, check.truth] for check in all_checks()} == {
        identity: row[:2] for identity, row in table.items()
    }


def test_nothing_failed_and_eptsim_refused_nothing(table):
    outcomes = [row[2:] for row in table.values()]
    assert {(ours, double) for ours, double, _ in outcomes} == {("passed", "passed")}
    assert {theirs for *_, theirs in outcomes} == {"passed", "refused"}


@pytest.mark.parametrize("column", range(3), ids=["eptsim", "eptsim-float64", "aihwkit"])
def test_the_cheap_checks_come_out_as_the_page_says(table, column):
    bench = Bench(*COLUMNS[column])
    found = {
        check.id: run_check(check, bench).status
        for check in all_checks()
        if check.id.startswith(CHEAP)
    }
    assert found == {identity: table[identity][2 + column] for identity in found}
