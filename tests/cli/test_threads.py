"""Idle threads sleep, unless the user said otherwise."""

from eptsim.cli.threads import wait_passively


def test_sets_the_policy_only_where_none_is_set(monkeypatch):
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    wait_passively()
    import os

    assert os.environ["OMP_WAIT_POLICY"] == "PASSIVE"
    monkeypatch.setenv("OMP_WAIT_POLICY", "ACTIVE")
    wait_passively()
    assert os.environ["OMP_WAIT_POLICY"] == "ACTIVE"
