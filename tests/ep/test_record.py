"""Phase records and the closed set of outcomes."""

import dataclasses

import pytest

from eptsim.ep.record import Outcome, PhaseRecord


def record(**changes):
    base = PhaseRecord(
        name="nudged", beta=0.01, outcome=Outcome.CONVERGED, sweeps=2,
        residuals=((1.0, 0.5), (1e-5, 2e-5)), tolerance=1e-4, floor=None, energies=(0.25, 0.5),
        cross_entropy=3.0,
    )
    return dataclasses.replace(base, **changes)


def test_only_two_outcomes_are_not_settled():
    assert {o for o in Outcome if not o.settled} == {Outcome.NOT_SETTLED, Outcome.DIVERGED}
    for outcome in Outcome:
        assert record(outcome=outcome).settled is outcome.settled


def test_every_outcome_explains_itself_and_bad_ones_advise():
    assert len({o.value for o in Outcome}) == len(Outcome)
    for outcome in Outcome:
        name, _, advice = outcome.value.partition(": ")
        assert name == outcome.name.lower().replace("_", " ")
        assert len(advice) > 10
        assert outcome.settled or "lower beta" in advice


def test_energy_and_residual_summarise():
    assert record().energy == 0.75
    assert record().residual == 2e-5
    assert record(residuals=()).residual == 0.0


def test_describe_names_phase_outcome_floor_and_block():
    text = record(outcome=Outcome.NOT_SETTLED, layer=2, floor=0.125).describe()
    for part in ("nudged phase (beta 0.01)", "not settled", "2 sweeps", "residual 2e-05",
                 "read floor 0.12", "block 2"):
        assert part in text
    assert "block" not in record().describe()


def test_a_free_phase_is_not_told_to_lower_beta():
    for outcome in (Outcome.NOT_SETTLED, Outcome.DIVERGED):
        text = record(name="free", beta=0.0, outcome=outcome).describe()
        assert "beta" not in text.replace("(beta 0)", "")
        assert "reduce the offsets" in text


def test_records_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        record().beta = 1.0
