"""The offset study: resume, refusal as a result, and the physics of each reference."""

import math

import numpy as np
import pytest

from eptsim.base.errors import InputError
from eptsim.results.views import open_results
from eptsim.studies import offsets
from eptsim.studies.offsets import Method, OffsetStudy, run_offsets, task_settings

NONE, WEIGHT, LINE = (Method("one_sided", name) for name in ("none", "weight", "line"))


def run(study, bench, folder, **options):
    steps = list(run_offsets(study, bench, folder, **options))
    paths = {step.task: step.path for step in steps if step.path is not None}
    return {task: open_results(path) for task, path in paths.items()}, steps


def by_method(found):
    return {task.method: data for task, data in found.items()}


def test_the_references_cancel_what_the_design_says(bench, tmp_path):
    vector = Method("one_sided", "weight", "per_vector")
    study = OffsetStudy((("transpose", (NONE, WEIGHT, LINE, vector), (0.02,)),), (0,))
    found = by_method(run(study, bench, tmp_path)[0])
    error = {method: data["relative_error"].values for method, data in found.items()}
    assert error[NONE][1] > 0.3
    assert error[WEIGHT][1] < 0.1
    assert error[LINE][1] == pytest.approx(error[LINE][0], rel=0.05)
    assert error[vector][1] > 1
    # with no offset the reference changes nothing
    assert error[NONE][0] == pytest.approx(error[LINE][0], rel=1e-6)
    assert found[LINE]["offset_free_error"].values[0] == 0
    assert found[NONE]["offset_free_error"].values[1] > 0.3


def test_a_forward_offset_moves_the_network_alike_for_all(bench, tmp_path):
    study = OffsetStudy((("forward", (NONE, LINE), (0.02,)),), (0,))
    found = by_method(run(study, bench, tmp_path)[0])
    a, b = (found[method]["relative_error"].values[1] for method in (NONE, LINE))
    assert a == pytest.approx(b, rel=0.05) and a > 0.01


def test_the_cards_other_offsets_are_zero(make, tmp_path):
    loud = make("ideal", changes={"forward.offset": 0.05, "node.offset": 0.1})
    study = OffsetStudy((("transpose", (LINE,), (0.02,)),), (0,))
    found = by_method(run(study, loud, tmp_path)[0])[LINE]
    assert found["relative_error"].values.max() < 0.02


def test_a_refused_phase_is_a_result_with_its_reason(bench, tmp_path):
    wild = Method("one_sided", "none", beta=1e3)
    study = OffsetStudy((("transpose", (wild, NONE), (0.02,)),), (0,), max_sweeps=3)
    found = by_method(run(study, bench, tmp_path)[0])
    assert list(found[wild]["outcome"].values) == ["refused"] * 2
    assert all("nudged phase" in reason for reason in found[wild]["reason"].values)
    assert np.isnan(found[wild]["cosine"].values).all()


def test_finished_tasks_are_not_run_again(bench, tmp_path, monkeypatch):
    study = OffsetStudy((("transpose", (NONE, LINE), (0.02,)), ("node", (NONE,), (0.02,))), (0, 1))
    first, steps = run(study, bench, tmp_path)
    assert len(first) == 6 and not any(step.resumed for step in steps)
    assert steps[-1].done == steps[-1].total == 12
    done = [step.done for step in steps]
    assert done == sorted(done)
    second, steps = run(study, bench, tmp_path)
    assert all(step.resumed for step in steps) and steps[-1].done == 12
    for task, data in first.items():
        assert data.equals(second[task])
    _, steps = run(study, bench, tmp_path, fresh=True)
    assert not any(step.resumed for step in steps)


def test_an_interrupted_study_keeps_what_is_finished(bench, tmp_path):
    study = OffsetStudy((("transpose", (NONE, LINE), (0.02,)),), (0,))
    steps = run_offsets(study, bench, tmp_path)
    next(step for step in steps if step.path is not None)
    steps.close()
    assert len(list(tmp_path.glob("*.h5"))) == 1
    resumed = [step.resumed for step in run_offsets(study, bench, tmp_path)]
    assert resumed == [True, False, False]
    whole, _ = run(study, bench, tmp_path / "whole")
    for task, data in run(study, bench, tmp_path)[0].items():
        assert data.equals(whole[task])


def test_the_chip_without_offsets_is_measured_once(bench, tmp_path, monkeypatch):
    seen = []
    real = offsets.measured

    def counted(*arguments):
        seen.append(arguments[3])
        return real(*arguments)

    monkeypatch.setattr(offsets, "measured", counted)
    run(OffsetStudy((("transpose", (NONE,), (0.02,)), ("node", (NONE,), (0.02,))), (0,)), bench,
        tmp_path)
    assert [bool(changes) for changes in seen].count(False) == 1


def test_the_identity_follows_every_setting(bench, make):
    study = OffsetStudy((("transpose", (NONE,), (0.02,)),), (0,))
    task = study.tasks()[0]
    base = task_settings(study, task, bench)
    assert base["ep"]["beta"] == 0.01
    assert task_settings(study, task, make("harsh")) != base
    twice = OffsetStudy(study.plan, (0,), reads=2)
    assert task_settings(twice, task, bench) != base


@pytest.mark.parametrize(
    ("plan", "seeds", "match"),
    [
        ((("transpos", (NONE,), (0.1,)),), (0,), "transpose"),
        ((("node", (NONE,), (-0.1,)),), (0,), "amplitude"),
        ((("node", (NONE,), (math.inf,)),), (0,), "amplitude"),
        ((("node", (), (0.1,)),), (0,), "method"),
        ((), (0,), "entry"),
        ((("node", (NONE,), (0.1,)),), (), "seed"),
        ((("node", (NONE,), (0.1,)),), (-1,), "seed"),
    ],
)
def test_bad_settings_are_refused(plan, seeds, match):
    with pytest.raises(InputError, match=match):
        OffsetStudy(plan, seeds)


def test_a_bad_method_is_refused_before_anything_runs(bench, tmp_path):
    study = OffsetStudy((("node", (NONE, Method("one_sided", "lines")), (0.1,)),), (0,))
    with pytest.raises(InputError, match=r"reference.*line"):
        next(run_offsets(study, bench, tmp_path))
    assert not list(tmp_path.iterdir())
