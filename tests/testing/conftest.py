"""Running one check on one factory: what the mutation tests of the suite stand on."""

from __future__ import annotations

import pytest
import torch

from eptsim.testing.bench import Bench
from eptsim.testing.suite import all_checks, run_check


@pytest.fixture(scope="session")
def run_one():
    """``run_one(check_id, factory, dtype)`` -> the row of one check."""
    checks = {check.id: check for check in all_checks()}

    def run(identity, factory, dtype=torch.float32):
        return run_check(checks[identity], Bench(factory, dtype))

    return run


@pytest.fixture(scope="session")
def catches(run_one):
    """``catches(check_id, broken, sound)``: the check fails on one factory and not on the other."""

    def check(identity, broken, sound):
        healthy = run_one(identity, sound)
        assert healthy.status == "passed", healthy.detail
        row = run_one(identity, broken)
        assert row.status == "failed", (row.status, row.detail)

    return check
