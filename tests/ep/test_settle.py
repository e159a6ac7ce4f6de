"""Settled states against stationarity of F by autograd, and what unsettled ones report."""

import math
from itertools import pairwise

import pytest
import torch
from torch.nn.functional import cross_entropy

import eptsim
from eptsim.base.errors import SettleError
from eptsim.ep.record import Outcome
from eptsim.ep.settle import Task, require_settled, residuals, settle, top_down, top_force
from eptsim.ep.state import free_state


def start(network, card, tolerance=1e-12, sweeps=None, max_sweeps=400):
    chip = eptsim.Chip(network.model, card)
    state = free_state(chip, network.tokens, chip.new_pass("free", "per_vector"))
    count = network.targets.numel()
    return chip, state, Task(network.targets, count, sweeps, tolerance, max_sweeps)


def run(network, card, beta, policy="per_vector", **task):
    chip, state, work = start(network, card, **task)
    record = settle(chip, state, work, beta, chip.new_pass("nudged", policy))
    return chip, state, record


def gradient_of_f(network, state, beta, force=None):
    """dF/dz_l by autograd of the formulas in the design, relative to |d_l|, top last."""
    model = network.model
    rotary = model.rotary(network.tokens.shape[1])
    z = [state.z[0], *(x.clone().requires_grad_() for x in state.z[1:])]
    total = torch.zeros((), dtype=z[0].dtype)
    for layer in range(len(z) - 1):
        mismatch = z[layer + 1] - model.block(layer, z[layer], rotary)
        total = total + 0.5 * mismatch.square().sum()
        if force is not None:
            total = total - (force[layer] * z[layer + 1]).sum()
    logits = model.readout(z[-1]).flatten(0, 1)
    total = total + beta * cross_entropy(logits, network.targets.flatten(), reduction="sum")
    return [
        float(g.norm() / d.norm())
        for g, d in zip(torch.autograd.grad(total, z[1:]), state.d[1:], strict=True)
    ]


@pytest.mark.parametrize("beta", [1e-3, 0.1, -0.1])
def test_a_settled_state_is_stationary(network, ideal, beta):
    _, state, record = run(network, ideal, beta)
    assert record.outcome is Outcome.CONVERGED
    assert max(gradient_of_f(network, state, beta)) < 1e-9


def test_damping_does_not_move_the_fixed_point(network, ideal):
    """At beta 1 full sweeps do not contract, so this state was reached by damped ones."""
    _, state, record = run(network, ideal, 1.0, tolerance=1e-10)
    assert record.outcome is Outcome.CONVERGED
    assert record.sweeps > 30
    assert max(gradient_of_f(network, state, 1.0)) < 1e-8


def test_a_constant_force_is_part_of_f(network, ideal):
    card = ideal.override({"node.offset": 5e-3})
    chip, state, record = run(network, card, 0.05)
    assert record.outcome is Outcome.CONVERGED
    assert max(gradient_of_f(network, state, 0.05, chip.node_force)) < 1e-9
    chip, state, record = run(network, card, 0.0)
    assert record.settled
    assert max(gradient_of_f(network, state, 0.0, chip.node_force)) < 1e-9


def test_every_state_above_the_embedding_is_nudged(network, ideal):
    _, free, _ = start(network, ideal)
    away = {}
    for beta in (1e-4, 1e-3):
        _, state, _ = run(network, ideal, beta)
        away[beta] = [float((a - b).norm()) for a, b in zip(state.z, free.z, strict=True)]
        assert away[beta][0] == 0.0
        assert all(x > 0 for x in away[beta][1:])
    for small, large in zip(away[1e-4][1:], away[1e-3][1:], strict=True):
        assert large / small == pytest.approx(10, rel=0.02)


def test_sweeps_contract_in_proportion_to_beta(network, ideal):
    """The largest residual falls by about beta per sweep, as the top force is the only drive."""
    factor = {}
    for beta in (1e-3, 1e-2):
        record = run(network, ideal, beta)[2]
        worst = [max(row) for row in record.residuals]
        assert worst[0] == 1.0
        assert all(b < a for a, b in pairwise(worst))
        last = max(i for i, r in enumerate(worst) if r > 1e-9)
        factor[beta] = (worst[last] / worst[1]) ** (1 / (last - 1))
        assert 0.1 * beta < factor[beta] < 10 * beta
    assert factor[1e-2] / factor[1e-3] == pytest.approx(10, rel=0.3)


def test_record_of_a_converged_phase(network, ideal):
    _, state, record = run(network, ideal, 0.01, tolerance=1e-8)
    assert (record.name, record.beta, record.tolerance) == ("nudged", 0.01, 1e-8)
    assert len(record.residuals) == record.sweeps
    assert all(len(row) == 3 for row in record.residuals)
    assert record.residual <= 1e-8 < max(record.residuals[-2])
    assert record.layer is None
    assert record.floor is None
    assert record.energies == tuple(
        pytest.approx(0.5 * float(d.square().sum())) for d in state.d[1:]
    )


def test_the_free_phase_of_an_ideal_chip_has_no_energy(network, ideal, gradient_on):
    g = gradient_on(network, ideal)
    free = g.phases[0]
    assert (free.outcome, free.sweeps, free.energies) == (Outcome.AT_REST, 0, (0.0, 0.0, 0.0))
    assert [p.name for p in g.phases] == ["free", "nudged+", "nudged-"]
    assert [p.beta for p in g.phases] == [0.0, 0.01, -0.01]
    # pulled down the cross-entropy, and pushed up it
    assert g.phases[1].cross_entropy < free.cross_entropy < g.phases[2].cross_entropy


def test_energy_grows_as_beta_squared(network, ideal):
    low, high = (run(network, ideal, beta)[2] for beta in (1e-4, 1e-3))
    assert high.energy / low.energy == pytest.approx(100, rel=0.01)


@pytest.mark.parametrize("beta", [30.0, 1000.0, -30.0, -1000.0])
def test_what_does_not_settle_is_not_passed_on(network, ideal, beta):
    record = run(network, ideal, beta, max_sweeps=60)[2]
    assert record.outcome in (Outcome.NOT_SETTLED, Outcome.DIVERGED)
    assert record.layer in (1, 2, 3)
    assert not record.settled
    with pytest.raises(SettleError, match=r"nudged phase.*block \d.*\.phases") as caught:
        require_settled(record, [record])
    assert caught.value.phases == (record,)


def test_a_mismatch_that_overflows_has_diverged(network, ideal):
    record = run(network, ideal, 1e200)[2]
    assert record.outcome is Outcome.DIVERGED
    assert record.layer is not None


def test_too_few_sweeps_are_refused(network, ideal):
    record = run(network, ideal, 0.1, max_sweeps=2)[2]
    assert record.outcome is Outcome.NOT_SETTLED
    assert record.sweeps == 2
    assert record.residual > record.tolerance
    assert "raise either or lower beta" in record.describe()


@pytest.mark.parametrize("sweeps", [1, 3])
def test_a_fixed_number_of_sweeps_is_kept(network, ideal, sweeps, gradient_on):
    record = run(network, ideal, 0.01, sweeps=sweeps, tolerance=math.inf)[2]
    assert (record.outcome, record.sweeps) == (Outcome.FIXED_SWEEPS, sweeps)
    g = gradient_on(network, ideal, sweeps=sweeps)
    assert [p.sweeps for p in g.phases] == [0, sweeps, sweeps]


def test_fixed_sweeps_that_run_away_are_refused(network, ideal, gradient_on):
    with pytest.raises(SettleError, match="nudged phase"):
        gradient_on(network, ideal, beta=1000.0, measurement="one_sided", sweeps=40)


def test_more_sweeps_come_nearer(network, ideal, gradient_on, error):
    nudge = {"beta": 0.05, "measurement": "one_sided"}
    settled = gradient_on(network, ideal, **nudge)
    away = [error(gradient_on(network, ideal, sweeps=n, **nudge), settled) for n in (1, 3, 5)]
    assert away[0] > 5 * away[1] > 25 * away[2]


def test_noise_ends_at_the_floor_of_the_reads(network, ideal):
    floors = []
    for noise in (1e-6, 1e-5):
        card = ideal.override({"transpose.line_noise": noise, "forward.line_noise": noise})
        record = run(network, card, 0.01)[2]
        assert record.outcome is Outcome.NOISE_FLOOR
        assert record.settled
        assert record.tolerance < record.residual <= 2 * record.floor
        assert record.floor < 4 * record.residual
        assert "read floor" in record.describe()
        floors.append(record.floor)
    assert floors[1] / floors[0] == pytest.approx(10, rel=0.5)


def test_a_wrong_nudge_is_refused_in_spite_of_noise(network, ideal):
    card = ideal.override({"transpose.line_noise": 1e-6, "forward.line_noise": 1e-6})
    record = run(network, card, 30.0, max_sweeps=60)[2]
    assert not record.settled


@pytest.mark.parametrize("beta", [300.0, 1000.0, -1000.0])
def test_noise_does_not_hide_a_diverging_nudge(tiny, ideal, beta):
    """Where two reads of a state have nothing in common, their distance is no noise floor."""
    card = ideal.override({"transpose.line_noise": 1e-3, "forward.line_noise": 1e-3})
    assert not run(tiny, card, beta, max_sweeps=40)[2].settled
    assert run(tiny, card, 0.01, max_sweeps=40)[2].outcome is Outcome.NOISE_FLOOR


def test_converters_end_at_their_steps(network, ideal):
    card = ideal.override({
        f"{direction}.{kind}_bits": 10 for direction in ("forward", "transpose")
        for kind in ("dac", "adc")
    })
    record = run(network, card, 0.01)[2]
    assert record.outcome in (Outcome.CONVERTER_FLOOR, Outcome.CONVERGED)
    # two steps of each converter: 10 bits have 511 codes per polarity, the ADC's span 12
    assert record.residual <= 2 * (1 / 511 + 12 / 511)


def test_a_quiet_chip_with_coarse_converters_settles_within_their_steps(network, ideal):
    card = ideal.override({
        f"{direction}.{kind}_bits": 8 for direction in ("forward", "transpose")
        for kind in ("dac", "adc")
    })
    record = run(network, card, 0.01)[2]
    assert record.outcome in (Outcome.CONVERTER_FLOOR, Outcome.CONVERGED)
    assert record.residual <= 2 * (1 / 127 + 12 / 127)


def test_top_force_is_the_gradient_of_the_summed_loss(network, ideal):
    chip, state, _ = start(network, ideal)
    z = state.z[-1].clone().requires_grad_()
    logits = network.model.readout(z).flatten(0, 1)
    loss = cross_entropy(logits, network.targets.flatten(), reduction="sum")
    found, gradient = top_force(chip, state.z[-1], network.targets, "nudged")
    assert found == pytest.approx(float(loss.detach()), rel=1e-13)
    assert torch.allclose(gradient, torch.autograd.grad(loss, z)[0], rtol=1e-12, atol=1e-14)


def test_top_down_sends_the_loss_gradient_through_every_block(network, ideal):
    """At the free state, d_l = -beta dCE/dz_l: backpropagation in local variables."""
    chip, state, _ = start(network, ideal)
    d, _ = top_down(chip, state, network.targets, 0.5, chip.new_pass("nudged", "per_vector"))
    model = network.model
    rotary = model.rotary(network.tokens.shape[1])
    z = [model.embed(network.tokens)]
    for layer in range(3):
        z.append(model.block(layer, z[-1], rotary))
    logits = model.readout(z[-1]).flatten(0, 1)
    loss = cross_entropy(logits, network.targets.flatten(), reduction="sum")
    assert d[0] is None
    for mine, theirs in zip(d[1:], torch.autograd.grad(loss, z[1:]), strict=True):
        assert torch.allclose(mine, -0.5 * theirs, rtol=1e-10, atol=1e-14)


def test_residuals_are_relative_changes():
    new = [None, torch.tensor([3.0, 4.0]), torch.zeros(2), torch.zeros(2), torch.ones(1)]
    old = [None, torch.tensor([3.0, 1.0]), None, torch.ones(2), None]
    assert residuals(new, old) == (pytest.approx(0.6), 0.0, math.inf, 1.0)
