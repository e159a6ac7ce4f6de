"""Every setting on the chip with every flaw: a finite gradient or a refusal, never a NaN."""

import itertools

import pytest
import torch

import eptsim
from eptsim.base.errors import SettleError
from eptsim.ep.options import MEASUREMENTS, REFERENCES

POLICIES = ("held", "per_vector", "fixed")
SETTINGS = list(itertools.product(MEASUREMENTS, (*REFERENCES, "weight+line"), POLICIES))


def finite(g):
    return all(bool(torch.isfinite(value).all()) for value in g.grads.values())


@pytest.mark.parametrize(("measurement", "reference", "policy"), SETTINGS)
def test_a_finite_gradient_or_a_refusal(tiny, gradient_on, measurement, reference, policy):
    try:
        g = gradient_on(
            tiny, eptsim.load_card("harsh"), measurement=measurement, reference=reference,
            range_policy=policy, max_sweeps=25,
        )
    except SettleError as refused:
        assert not refused.phases[-1].settled
        assert all(p.settled for p in refused.phases[:-1])
    else:
        assert finite(g)
        assert all(p.settled for p in g.phases)
        assert len(g.phases) == (3 if measurement == "centred" else 2)


@pytest.mark.parametrize("name", eptsim.list_cards())
def test_every_shipped_card_gives_a_gradient(tiny, gradient_on, name):
    try:
        card = eptsim.load_card(name)
        g = gradient_on(tiny, card, reference="line+weight", sweeps=3)
    except eptsim.CardError as refused:
        assert "not simulated" in str(refused)
    else:
        assert finite(g)
        assert g.loss > 0


def test_both_spellings_of_a_pair_are_the_same_measurement(tiny, gradient_on):
    card = eptsim.load_card("harsh")
    pair = [gradient_on(tiny, card, reference=r, sweeps=2) for r in ("line+weight", "weight+line")]
    assert all(torch.equal(pair[0].grads[n], pair[1].grads[n]) for n in pair[0].grads)


@pytest.mark.parametrize("beta", [1e-12, -1e-12, 1e-6, 100.0, 1e4, -1e4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("card", ["ideal", "harsh"])
def test_no_beta_gives_a_nan(make_network, gradient_on, beta, dtype, card):
    net = make_network(
        hidden=16, heads=2, blocks=2, batch=1, positions=6, vocabulary=20, dtype=dtype
    )
    for measurement in ("one_sided", "frozen"):
        try:
            g = gradient_on(
                net, eptsim.load_card(card), beta=beta, measurement=measurement, max_sweeps=15
            )
        except SettleError as refused:
            assert measurement == "one_sided" or refused.phases[-1].name == "free"
        else:
            assert finite(g)


@pytest.mark.parametrize(
    "value",
    [0.0, 1e-30, 1e30],
    ids="{:g}".format,
)
def test_models_that_are_all_zero_tiny_or_huge(make_network, gradient_on, value):
    """RMSNorm makes the size of most weights indifferent; none may divide by it unguarded."""
    net = make_network(hidden=16, heads=2, blocks=2, batch=1, positions=6, vocabulary=20)
    with torch.no_grad():
        for name, parameter in net.model.named_parameters():
            if "proj" in name:
                parameter.mul_(value)
    reference = eptsim.backprop_gradient(net.model, net.tokens, net.targets)
    for card in ("ideal", "harsh"):
        g = gradient_on(net, eptsim.load_card(card), measurement="frozen", range_policy="held")
        assert finite(g) is finite(reference)


@pytest.mark.parametrize("positions", [1, 2])
def test_a_single_token_is_enough(make_network, ideal, gradient_on, error, positions):
    net = make_network(hidden=16, heads=2, blocks=1, batch=1, positions=positions, vocabulary=20)
    reference = eptsim.backprop_gradient(net.model, net.tokens, net.targets)
    assert error(gradient_on(net, ideal, measurement="frozen"), reference) < 1e-12
    assert error(gradient_on(net, ideal, beta=1e-3), reference) < 1e-3
    harsh = eptsim.load_card("harsh")
    assert finite(gradient_on(net, harsh, sweeps=2, reference="line+node"))
