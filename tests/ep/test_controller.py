"""The gradient of an ideal chip against backpropagation, and how a run treats its surroundings."""

import copy
import math
import random

import numpy as np
import pytest
import torch

import eptsim
from eptsim.base.errors import InputError, SettleError
from eptsim.ep.compare import ARRAY_NAMES
from eptsim.ep.record import Outcome

BETAS = (1e-3, 1e-2)


def slope(errors: tuple[float, float]) -> float:
    return math.log(errors[1] / errors[0]) / math.log(BETAS[1] / BETAS[0])


@pytest.fixture(scope="module")
def by_beta(network, ideal, backprop, gradient_on):
    """Measurement -> the comparisons with backprop at both BETAS."""
    return {
        measurement: tuple(
            eptsim.compare(
                gradient_on(network, ideal, beta=beta, measurement=measurement), backprop
            )
            for beta in BETAS
        )
        for measurement in ("one_sided", "centred")
    }


@pytest.mark.parametrize(("measurement", "order"), [("one_sided", 1.0), ("centred", 2.0)])
def test_error_falls_as_a_power_of_beta(by_beta, measurement, order):
    pair = by_beta[measurement]
    assert slope(tuple(c.total.relative_error for c in pair)) == pytest.approx(order, abs=0.05)
    coefficient = pair[1].total.relative_error / BETAS[1] ** order
    assert 0.1 < coefficient < 2.0  # of order one, as in the design


@pytest.mark.parametrize(("measurement", "order"), [("one_sided", 1.0), ("centred", 2.0)])
def test_every_matrix_has_the_slope_of_the_whole(by_beta, measurement, order):
    rows = [c.select("array") for c in by_beta[measurement]]
    assert [r.name for r in rows[0]] == list(ARRAY_NAMES) * 3
    for low, high in zip(*rows, strict=True):
        found = slope((low.relative_error, high.relative_error))
        assert found == pytest.approx(order, abs=0.1), (low.block, low.name)


@pytest.mark.parametrize(("measurement", "order"), [("one_sided", 1.0), ("centred", 2.0)])
def test_every_digital_parameter_has_that_slope_too(by_beta, measurement, order):
    for low, high in zip(*(c.select("digital") for c in by_beta[measurement]), strict=True):
        found = slope((low.relative_error, high.relative_error))
        assert found == pytest.approx(order, abs=0.1), low.name


def test_every_array_points_where_backprop_does(by_beta):
    """An update computed from an activation without its nudge would be zero or elsewhere."""
    for pair in by_beta.values():
        assert all(row.cosine > 0.9999 for row in pair[1].select("array"))
        assert all(abs(row.norm_ratio - 1) < 0.02 for row in pair[1].select("array"))


@pytest.mark.parametrize("beta", [1e-3, 1.0, 50.0, -2.0])
def test_frozen_is_backprop_at_any_beta(network, ideal, backprop, gradient_on, beta):
    g = gradient_on(network, ideal, beta=beta, measurement="frozen")
    assert g.grads.keys() == backprop.grads.keys() == dict(network.model.named_parameters()).keys()
    assert max(row.relative_error for row in eptsim.compare(g, backprop).rows) < 1e-12
    assert g.loss == pytest.approx(backprop.loss, rel=1e-13)
    assert [p.outcome for p in g.phases] == [Outcome.AT_REST, Outcome.HELD]


def test_centred_is_even_in_beta_and_averages_both_sides(
    network, ideal, gradient_on, error, combine
):
    up, down, both, other = (
        gradient_on(network, ideal, beta=beta, measurement=measurement)
        for beta, measurement in (
            (0.05, "one_sided"), (-0.05, "one_sided"), (0.05, "centred"), (-0.05, "centred"),
        )
    )
    # both sides share the free state, so their mean is the centred difference
    assert error(combine((0.5, up), (0.5, down)), both) < 1e-9
    assert error(other, both) < 1e-9


def test_predictive_coding_settles_at_full_clamp_and_is_biased(
    network, ideal, backprop, gradient_on
):
    g = gradient_on(network, ideal, measurement="predictive_coding")
    assert (g.settings["beta"], g.settings["reference"]) == (1.0, "none")
    assert [p.settled for p in g.phases] == [True, True]
    total = eptsim.compare(g, backprop).total
    assert 0.1 < total.relative_error < 1.0
    assert total.cosine > 0.7
    small = gradient_on(network, ideal, measurement="predictive_coding", beta=1e-3)
    assert eptsim.compare(small, backprop).total.relative_error < 3e-3


def test_float32_reaches_the_beta_bias(make_network, ideal, backprop, gradient_on, error):
    single = make_network(dtype=torch.float32)
    for measurement, bound in (("one_sided", 0.01), ("centred", 2e-4), ("frozen", 5e-6)):
        g = gradient_on(single, ideal, measurement=measurement, beta=0.01)
        assert all(value.dtype == torch.float32 for value in g.grads.values())
        assert error(g, backprop) < bound


def test_a_beta_of_one_settles_damped_and_keeps_its_order(network, ideal, backprop, gradient_on):
    g = gradient_on(network, ideal, beta=1.0, measurement="one_sided", tolerance=1e-6)
    assert g.phases[1].outcome is Outcome.CONVERGED
    assert eptsim.compare(g, backprop).total.cosine > 0.7


def test_gradient_does_not_change_when_the_batch_is_repeated(network, ideal, gradient_on, error):
    card = ideal.override({"transpose.offset": 1e-3, "forward.offset": 1e-3, "node.offset": 1e-3})
    twice = copy.copy(network)
    twice.tokens = network.tokens.repeat(2, 1)
    twice.targets = network.targets.repeat(2, 1)
    for reference in ("line", "weight", "line+weight"):
        once, again = (
            gradient_on(n, card, measurement="one_sided", reference=reference, tolerance=1e-12)
            for n in (network, twice)
        )
        assert error(again, once) < 1e-8, reference
        assert again.loss == pytest.approx(once.loss, rel=1e-12)


def test_gradient_of_a_permuted_batch_is_the_same(network, ideal, gradient_on, error):
    card = ideal.override({"transpose.offset": 1e-3, "node.offset": 1e-3})
    turned = copy.copy(network)
    turned.tokens, turned.targets = network.tokens.flip(0), network.targets.flip(0)
    pair = [gradient_on(n, card, reference="line+weight") for n in (network, turned)]
    assert error(*pair) < 1e-9


def test_positions_without_target_do_not_count(network, ideal, gradient_on, error):
    holes = copy.copy(network)
    holes.targets = network.targets.clone()
    holes.targets[0, 3:9] = -100
    reference = eptsim.backprop_gradient(network.model, holes.tokens, holes.targets)
    g = gradient_on(holes, ideal, measurement="frozen")
    assert error(g, reference) < 1e-12
    # the causal mask hides what follows the last target
    short = copy.copy(network)
    short.targets = network.targets.clone()
    short.targets[:, 7:] = -100
    cut = copy.copy(network)
    cut.tokens, cut.targets = network.tokens[:, :7], network.targets[:, :7]
    assert error(gradient_on(short, ideal), gradient_on(cut, ideal)) < 1e-8


def test_two_fresh_chips_agree_to_the_bit_and_seeds_differ(tiny, gradient_on, error):
    card = eptsim.load_card("harsh")
    first, second, other = (gradient_on(tiny, card, seed=s, sweeps=2) for s in (5, 5, 6))
    assert all(torch.equal(first.grads[n], second.grads[n]) for n in first.grads)
    assert first.phases == second.phases
    assert error(other, first) > 0.1


def test_a_second_gradient_has_fresh_noise(tiny, ideal, error):
    chip = eptsim.Chip(tiny.model, ideal.override({"transpose.line_noise": 1e-5}), seed=0)
    ep = eptsim.EPController(chip, sweeps=2)
    first, second = (ep.gradient(tiny.tokens, tiny.targets) for _ in range(2))
    assert 0 < error(second, first) < 0.1


def jackknife(samples: torch.Tensor) -> tuple[float, float]:
    """log of the total variance of ``samples`` (n, parameters), and its standard error."""
    n = samples.shape[0]
    logs = torch.stack([
        samples[torch.arange(n) != i].var(dim=0).sum().log() for i in range(n)
    ])
    spread = (n - 1) / n * (logs - logs.mean()).square().sum()
    return float(samples.var(dim=0).sum().log()), float(spread.sqrt())


def test_reads_average_the_noise(tiny, ideal):
    """The variance falls as 1 / reads: within 4 standard errors, of at most 25 %."""
    card = ideal.override({"transpose.line_noise": 1e-5})
    found = []
    for reads in (1, 4):
        ep = eptsim.EPController(eptsim.Chip(tiny.model, card), sweeps=2, reads=reads)
        draws = [ep.gradient(tiny.tokens, tiny.targets).grads for _ in range(16)]
        found.append(jackknife(torch.stack([
            torch.cat([value.flatten() for value in grads.values()]) for grads in draws
        ])))
    (one, one_error), (four, four_error) = found
    standard_error = math.hypot(one_error, four_error)
    assert standard_error < 0.25
    assert abs(one - four - math.log(4)) < 4 * standard_error


@pytest.mark.parametrize("reference", ["line", "weight", "node", "none"])
def test_reads_of_a_quiet_chip_change_nothing(tiny, ideal, gradient_on, error, reference):
    card = ideal.override({"node.offset": 1e-3})
    settings = {"measurement": "one_sided", "reference": reference}
    once, thrice = (gradient_on(tiny, card, reads=reads, **settings) for reads in (1, 3))
    assert error(thrice, once) < 1e-12
    assert len(thrice.phases) == 3 * len(once.phases)


def test_nothing_around_the_chip_is_touched(make_network):
    net = make_network(hidden=16, heads=2, blocks=2, batch=1, positions=6)
    before = {n: v.detach().clone() for n, v in net.model.named_parameters()}
    marked = net.model.get_parameter("lm_head.weight")
    marked.grad = torch.full_like(marked, 7.0)
    tokens, targets = net.tokens.clone(), net.targets.clone()
    state = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()
    chip = eptsim.Chip(net.model, eptsim.load_card("harsh"))
    eptsim.EPController(chip, sweeps=2, reference="line+weight").gradient(net.tokens, net.targets)
    eptsim.backprop_gradient(net.model, net.tokens, net.targets)
    assert torch.equal(torch.get_rng_state(), state[0])
    assert (np.random.get_state()[1] == state[1]).all()
    assert random.getstate() == state[2]
    assert torch.equal(net.tokens, tokens)
    assert torch.equal(net.targets, targets)
    for name, value in net.model.named_parameters():
        assert torch.equal(value, before[name])
        assert value.requires_grad
        assert value.grad is None or (value is marked and bool((value.grad == 7.0).all()))


@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode])
def test_works_where_gradients_are_switched_off(tiny, ideal, gradient_on, error, context):
    outside = gradient_on(tiny, ideal, measurement="one_sided")
    yardstick = eptsim.backprop_gradient(tiny.model, tiny.tokens, tiny.targets)
    with context():
        here = copy.copy(tiny)
        here.tokens, here.targets = tiny.tokens + 0, tiny.targets + 0
        inside = gradient_on(here, ideal, measurement="one_sided")
        reference = eptsim.backprop_gradient(here.model, here.tokens, here.targets)
    assert error(inside, outside) < 1e-13
    assert error(reference, yardstick) < 1e-13


def test_parameters_that_need_no_gradient_are_measured_all_the_same(make_network, ideal, error):
    net = make_network(hidden=16, heads=2, blocks=2, batch=1, positions=6)
    ep = eptsim.EPController(eptsim.Chip(net.model, ideal), measurement="one_sided")
    expected = ep.gradient(net.tokens, net.targets)
    net.model.requires_grad_(False)
    assert error(ep.gradient(net.tokens, net.targets), expected) < 1e-13


def test_gradient_holds_no_graph(tiny, ideal, gradient_on):
    g = gradient_on(tiny, ideal)
    assert not any(value.requires_grad for value in g.grads.values())


def test_inference_is_the_free_phase(tiny, ideal, gradient_on):
    chip = eptsim.Chip(tiny.model, ideal)
    logits = chip.logits(tiny.tokens)
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tiny.targets.flatten())
    assert gradient_on(tiny, ideal).loss == pytest.approx(float(loss), rel=1e-13)


@pytest.mark.parametrize("kind", [None, "model", 3])
def test_a_controller_needs_a_chip(kind):
    with pytest.raises(InputError, match="EPController: chip: found"):
        eptsim.EPController(kind)


def test_bad_tokens_are_refused_before_anything_is_read(tiny, ideal):
    chip = eptsim.Chip(tiny.model, ideal)
    ep = eptsim.EPController(chip)
    for call in (ep.gradient, ep.calibrate):
        with pytest.raises(InputError, match="tokens: found 20 at position"):
            call(torch.full((1, 6), 20), tiny.targets)
        with pytest.raises(InputError, match="targets: found shape"):
            call(tiny.tokens, tiny.targets[:, :3])
    assert chip.ledger.total_reads() == 0


def test_a_failed_gradient_says_which_phase_and_block(network, ideal, gradient_on):
    with pytest.raises(SettleError, match=r"nudged phase \(beta 1000\): .*block [123]") as caught:
        gradient_on(network, ideal, beta=1000, measurement="one_sided", max_sweeps=60)
    assert [p.name for p in caught.value.phases] == ["free", "nudged"]
    assert [p.settled for p in caught.value.phases] == [True, False]
    assert caught.value.phases[-1].layer in (1, 2, 3)
    with pytest.raises(SettleError, match=r"nudged[+-] phase \(beta -?30\)") as caught:
        gradient_on(network, ideal, beta=-30, measurement="centred", max_sweeps=60)
    assert caught.value.phases[-1].name in ("nudged+", "nudged-")
