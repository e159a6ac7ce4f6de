"""Held ranges: how they are found, kept, reused and not shared between controllers."""

import copy

import pytest
import torch

import eptsim
from eptsim.ep.controller import HELD_MARGIN
from eptsim.ep.state import free_state
from eptsim.olmo2.block import ARRAYS

COARSE = {
    f"{direction}.{kind}_bits": 8 for direction in ("forward", "transpose")
    for kind in ("dac", "adc")
}


@pytest.fixture(scope="module")
def coarse(ideal):
    """8-bit converters: ranges matter, nothing is noisy."""
    return ideal.override(COARSE)


def held(chip):
    return {
        (path, direction): array.held_range(direction)
        for path, array in chip.arrays.items()
        for direction in ("forward", "transpose")
    }


def test_calibration_sees_the_largest_drive_of_every_array(network, ideal):
    chip = eptsim.Chip(network.model, ideal)
    ep = eptsim.EPController(chip, beta=0.01)
    ranges = ep.calibrate(network.tokens, network.targets)
    assert ranges.keys() == held(chip).keys()
    assert all(0 < value < 100 for value in ranges.values())
    state = free_state(chip, network.tokens, chip.new_pass("free", "per_vector"))
    for layer in range(3):
        key = (f"layers.{layer}.qkv", "forward")
        assert ranges[key] == pytest.approx(float(state.z[layer].abs().max()), rel=1e-12)


def test_transposed_ranges_follow_beta(network, ideal):
    chip = eptsim.Chip(network.model, ideal)
    one, ten = (
        eptsim.EPController(chip, beta=beta).calibrate(network.tokens, network.targets)
        for beta in (1e-3, 1e-2)
    )
    for key, value in one.items():
        expected = value if key[1] == "forward" else 10 * value
        assert ten[key] == pytest.approx(expected, rel=1e-9)


def test_the_first_batch_calibrates_and_later_ones_reuse_it(network, coarse):
    chip = eptsim.Chip(network.model, coarse)
    ep = eptsim.EPController(chip, sweeps=3)
    assert set(held(chip).values()) == {None}
    ep.gradient(network.tokens, network.targets)
    after = held(chip)
    assert {key.phase for key in chip.ledger.reads} == {
        "calibration", "free", "nudged+", "nudged-",
    }
    chip.ledger.clear()
    ep.gradient(network.tokens.flip(1), network.targets.flip(1))
    assert held(chip) == after
    assert "calibration" not in {key.phase for key in chip.ledger.reads}


def test_explicit_calibration_is_what_the_first_batch_would_do(network, coarse):
    grads = []
    for explicit in (False, True):
        chip = eptsim.Chip(network.model, coarse)
        ep = eptsim.EPController(chip, sweeps=3)
        if explicit:
            found = ep.calibrate(network.tokens, network.targets)
        grads.append(ep.gradient(network.tokens, network.targets))
    assert all(torch.equal(grads[0].grads[n], grads[1].grads[n]) for n in grads[0].grads)
    assert held(chip) == {key: HELD_MARGIN * value for key, value in found.items()}


def test_a_new_calibration_replaces_the_old_one(network, coarse):
    chip = eptsim.Chip(network.model, coarse)
    ep = eptsim.EPController(chip, sweeps=3)
    ep.gradient(network.tokens, network.targets)
    first = held(chip)
    half = network.tokens[:1, :4], network.targets[:1, :4]
    ep.calibrate(*half)
    ep.gradient(*half)
    assert held(chip) != first


def test_controllers_do_not_disturb_each_other(network, coarse):
    """Two betas in turn on one chip: each gradient to the bit that of a chip of its own."""
    def alone(beta):
        ep = eptsim.EPController(eptsim.Chip(network.model, coarse), beta=beta, sweeps=3)
        return ep.gradient(network.tokens, network.targets).grads

    chip = eptsim.Chip(network.model, coarse)
    pair = {b: eptsim.EPController(chip, beta=b, sweeps=3) for b in (1e-3, 1e-1)}
    for beta in (1e-3, 1e-1, 1e-3, 1e-1):
        found = pair[beta].gradient(network.tokens, network.targets).grads
        expected = alone(beta)
        assert all(torch.equal(found[name], expected[name]) for name in expected), beta


def test_another_controller_does_not_change_what_calibrate_returned(network, ideal):
    chip = eptsim.Chip(network.model, ideal)
    ep = eptsim.EPController(chip)
    found = ep.calibrate(network.tokens, network.targets)
    found.clear()
    ep.gradient(network.tokens, network.targets)
    assert None not in held(chip).values()


def test_a_batch_does_not_change_the_ranges_of_another(network, coarse, error):
    """At calibrated ranges a batch's gradient is the mean of those of its sequences."""
    chip = eptsim.Chip(network.model, coarse)
    ep = eptsim.EPController(chip, sweeps=3, measurement="one_sided")
    ep.calibrate(network.tokens, network.targets)
    whole = ep.gradient(network.tokens, network.targets)
    parts = [ep.gradient(network.tokens[i : i + 1], network.targets[i : i + 1]) for i in (0, 1)]
    mean = {n: 0.5 * (parts[0].grads[n] + parts[1].grads[n]) for n in whole.grads}
    assert error(mean, whole.grads) < 1e-9
    assert whole.loss == pytest.approx(0.5 * (parts[0].loss + parts[1].loss), rel=1e-12)


def test_finer_converters_come_nearer(network, ideal, backprop, gradient_on, error):
    found = []
    for bits in (8, 10, 12):
        card = ideal.override(dict.fromkeys(COARSE, bits))
        found.append(error(gradient_on(network, card, sweeps=4, beta=0.03), backprop))
    assert found[0] > 2 * found[1] > 4 * found[2]


def test_ranges_of_an_array_that_sees_only_zeros(make_network, coarse, gradient_on):
    """W_3 = 0 gates everything away: W_2 is driven by zeros, and its range must still be usable."""
    net = copy.copy(make_network(hidden=16, heads=2, blocks=1, batch=1, positions=6))
    with torch.no_grad():
        net.model.get_parameter("model.layers.0.mlp.up_proj.weight").zero_()
    g = gradient_on(net, coarse, sweeps=2)
    assert all(bool(torch.isfinite(value).all()) for value in g.grads.values())
    assert set(ARRAYS) == {"qkv", "proj", "w1", "w3", "w2"}
