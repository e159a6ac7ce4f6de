"""What each reference cancels of static offsets (design, section 3), by range policy."""

import copy
import math
from types import SimpleNamespace

import pytest
import torch
from torch.nn.functional import cross_entropy, linear

import eptsim
from eptsim.base.errors import SettleError
from eptsim.ep.record import Outcome
from eptsim.olmo2.block import ARRAYS, MATRICES, block_forward

POLICIES = ("held", "per_vector", "fixed")
KINDS = (
    *(f"model.layers.1.{suffix}" for suffixes in MATRICES.values() for suffix in suffixes),
    "model.layers.0.self_attn.q_norm.weight",
    "model.layers.1.post_attention_layernorm.weight",
    "model.layers.0.post_feedforward_layernorm.weight",
    "model.embed_tokens.weight",
    "model.norm.weight",
    "lm_head.weight",
)


@pytest.fixture(scope="module")
def small(make_network):
    """Two blocks, width 32, 8 tokens."""
    return make_network(blocks=2, batch=1, positions=8)


def extrapolated(gradient, combine, beta: float):
    """One-sided gradients at three strengths, extrapolated to beta 0: error of order beta^3."""
    at = [gradient(beta / k) for k in (1, 2, 4)]
    return combine((1 / 3, at[0]), (-2.0, at[1]), (8 / 3, at[2]))


# ---- a constant force on the state nodes


@pytest.fixture(scope="module", params=[1e-3, 1e-2], ids="offset {:g}".format)
def shifted(request, small, ideal, gradient_on, combine):
    """A card with node offsets and the gradient that reference ``weight`` gives, beta -> 0."""
    card = ideal.override({"node.offset": request.param})

    def one_sided(beta: float):
        return gradient_on(
            small, card, measurement="one_sided", reference="weight", beta=beta, tolerance=1e-12
        )

    grads = extrapolated(one_sided, combine, 4e-3)
    return SimpleNamespace(card=card, grads=grads, offset=request.param)


def loss_at(network, card, name, step, direction, force) -> float:
    """Loss of the settled free phase with one parameter moved, at the same constant forces."""
    moved = copy.deepcopy(network.model)
    with torch.no_grad():
        moved.get_parameter(name).add_(direction, alpha=step)
    chip = eptsim.Chip(moved, card, seed=0)
    if name.endswith("proj.weight"):
        assert all(torch.equal(a, b) for a, b in zip(chip.node_force, force, strict=True))
    chip.node_force = force  # its size follows embedding and gains, which are not at stake here
    ep = eptsim.EPController(chip, measurement="frozen", reference="weight", tolerance=1e-13)
    return ep.gradient(network.tokens, network.targets).loss


@pytest.mark.parametrize("name", KINDS)
def test_weight_gives_the_gradient_at_the_shifted_equilibrium(small, shifted, name):
    """Finite differences of the loss along a random direction: equal to 1e-6."""
    force = eptsim.Chip(small.model, shifted.card, seed=0).node_force
    value = small.model.get_parameter(name)
    generator = torch.Generator().manual_seed(len(name))
    direction = torch.randn(value.shape, generator=generator, dtype=torch.float64)
    h = 5e-4
    at = {k: loss_at(small, shifted.card, name, k * h, direction, force) for k in (-2, -1, 1, 2)}
    difference = (8 * (at[1] - at[-1]) - (at[2] - at[-2])) / (12 * h)
    found = float((shifted.grads[name] * direction).sum())
    assert found == pytest.approx(difference, rel=1e-6)


def test_the_free_phase_is_settled_and_says_so(small, shifted, gradient_on):
    g = gradient_on(small, shifted.card, measurement="one_sided", reference="weight")
    free = g.phases[0]
    assert (free.name, free.beta, free.outcome) == ("free", 0.0, Outcome.CONVERGED)
    assert free.sweeps > 1
    assert free.energy > 0
    assert free.cross_entropy == g.loss


@pytest.mark.parametrize("reference", ["weight", "line+weight", "weight+line"])
def test_weight_is_exact_one_sided_and_centred(small, shifted, gradient_on, error, reference):
    for measurement, bound in (("one_sided", 2e-3), ("centred", 2e-6)):
        g = gradient_on(
            small, shifted.card, beta=1e-3, measurement=measurement, reference=reference
        )
        assert error(g, shifted.grads) < bound
    # what they agree on is not the gradient without offsets
    plain = eptsim.backprop_gradient(small.model, small.tokens, small.targets)
    assert error(shifted.grads, plain.grads) > 5 * shifted.offset


@pytest.mark.parametrize("reference", ["none", "line"])
def test_without_weight_or_node_the_error_is_offset_over_beta(
    small, shifted, gradient_on, error, reference
):
    found = [
        error(
            gradient_on(
                small, shifted.card, beta=beta, measurement="one_sided", reference=reference
            ),
            shifted.grads,
            "layers",
        )
        for beta in (1e-3, 1e-2)
    ]
    assert math.log10(found[1] / found[0]) == pytest.approx(-1, abs=0.02)
    assert found[1] > 10 * shifted.offset / 1e-2
    # the centred difference cancels a constant force by itself
    centred = gradient_on(small, shifted.card, beta=1e-3, reference=reference)
    assert error(centred, shifted.grads) < 2e-6


@pytest.mark.parametrize("reference", ["node", "line+node"])
def test_node_is_near_but_not_exact(small, shifted, gradient_on, error, reference):
    for measurement in ("one_sided", "centred"):
        g = gradient_on(
            small, shifted.card, beta=1e-3, measurement=measurement, reference=reference
        )
        assert shifted.offset < error(g, shifted.grads) < 20 * shifted.offset


def test_frozen_leaves_out_what_the_offset_moves(small, shifted, gradient_on, error):
    """Held at the shifted point it is backprop there: near the gradient, and the same by both."""
    weight, node = (
        gradient_on(small, shifted.card, measurement="frozen", reference=r)
        for r in ("weight", "node")
    )
    assert error(weight, node) < 1e-9
    assert shifted.offset < error(weight, shifted.grads) < 40 * shifted.offset


# ---- offsets of the transposed reads


@pytest.fixture(scope="module")
def transposed(network, ideal, backprop, gradient_on, error):
    """``transposed(offset, **settings)``: error to backprop."""

    def run(offset: float, **settings) -> float:
        card = ideal.override({"transpose.offset": offset})
        return error(gradient_on(network, card, **settings), backprop)

    return run


@pytest.mark.parametrize("reference", ["weight", "node"])
@pytest.mark.parametrize("measurement", ["one_sided", "centred"])
def test_at_a_fixed_range_weight_and_node_leave_a_floor(transposed, reference, measurement):
    """The floor grows as the offset and does not know beta."""
    beta = 1e-6 if measurement == "one_sided" else 1e-4  # its bias lies far below the floor
    settings = {"reference": reference, "measurement": measurement, "range_policy": "fixed"}
    floor = {
        (offset, k): transposed(offset, beta=k * beta, tolerance=1e-12, **settings)
        for offset, k in ((3e-5, 1), (3e-4, 1), (3e-5, 10), (3e-4, 10))
    }
    slope = math.log10(floor[3e-4, 1] / floor[3e-5, 1])
    assert slope == pytest.approx(1, abs=0.1)
    for offset in (3e-5, 3e-4):
        assert floor[offset, 10] == pytest.approx(floor[offset, 1], rel=0.02)
        assert 10 * offset < floor[offset, 1] < 1000 * offset


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("reference", ["line", "line+weight", "line+node"])
@pytest.mark.parametrize("measurement", ["one_sided", "centred"])
def test_line_leaves_the_beta_bias_and_nothing_else(transposed, reference, policy, measurement):
    settings = {"beta": 0.01, "reference": reference, "measurement": measurement}
    bias = transposed(0.0, **settings)
    assert bias < {"one_sided": 0.01, "centred": 2e-4}[measurement]
    found = transposed(0.02, range_policy=policy, **settings)
    assert found == pytest.approx(bias, rel=1e-6)


def test_without_reference_the_error_grows_as_one_over_beta(transposed):
    settings = {"reference": "none", "measurement": "one_sided", "range_policy": "fixed"}
    found = [transposed(1e-4, beta=beta, **settings) for beta in (1e-3, 1e-2)]
    assert math.log10(found[1] / found[0]) == pytest.approx(-1, abs=0.05)
    assert found[0] > 1


@pytest.mark.parametrize("reference", ["weight", "node"])
def test_with_ranges_of_their_own_the_phases_do_not_cancel(
    network, ideal, backprop, gradient_on, reference
):
    """The trap: the free phase drives its offsets at other ranges than the nudged phase."""
    card = ideal.override({"transpose.offset": 0.02})
    settings = {"beta": 0.1, "measurement": "one_sided", "reference": reference}

    def total(**more):
        return eptsim.compare(gradient_on(network, card, **settings, **more), backprop).total

    with pytest.raises(SettleError, match="free phase"):
        total(range_policy="per_vector", max_sweeps=60)
    assert abs(total(range_policy="per_vector", sweeps=20).cosine) < 0.3
    held = total(range_policy="held")
    assert held.cosine > 0.98
    bias = eptsim.compare(gradient_on(network, ideal, **settings), backprop).total.relative_error
    assert bias < held.relative_error < 3 * bias


@pytest.mark.parametrize("reference", ["weight", "node"])
def test_at_a_held_range_the_floor_shrinks_with_beta(transposed, reference):
    """The calibrated range follows beta, and so do the offsets that it scales."""
    settings = {"reference": reference, "measurement": "centred", "range_policy": "held"}
    low, high, wide = (
        transposed(offset, beta=beta, tolerance=1e-12, **settings)
        for offset, beta in ((1e-3, 1e-4), (1e-3, 1e-3), (1e-2, 1e-3))
    )
    assert math.log10(high / low) == pytest.approx(1, abs=0.1)
    assert math.log10(wide / high) == pytest.approx(1, abs=0.15)


# ---- offsets of the forward reads


def offset_gradient(network, chip, ranges):
    """autograd's gradient of the network whose every matmul is W x + offset, in plain torch."""
    model = network.model
    rotary = model.rotary(network.tokens.shape[1])
    z = torch.nn.functional.embedding(
        network.tokens, model.get_parameter("model.embed_tokens.weight")
    )
    for layer in range(model.shape.num_hidden_layers):

        def matmul(array, x, layer=layer):
            weight = model.block_weight(layer, array)
            unit = float(weight.detach().abs().max()) * ranges(layer, array)
            offset = chip.arrays[f"layers.{layer}.{array}"].stage("forward").offset.sum(dim=0)
            return linear(x, weight) + unit * offset

        z = block_forward(
            z, model.block_gains(layer), rotary, model.shape.num_attention_heads,
            model.shape.rms_norm_eps, matmul,
        )
    loss = cross_entropy(model.readout(z).flatten(0, 1), network.targets.flatten())
    names, values = zip(*model.named_parameters(), strict=True)
    return dict(zip(names, torch.autograd.grad(loss, values), strict=True)), float(loss.detach())


@pytest.mark.parametrize("policy", ["fixed", "held"])
@pytest.mark.parametrize("reference", ["none", "weight", "node", "line", "line+weight"])
def test_forward_offsets_are_part_of_the_network(
    network, ideal, backprop, error, policy, reference
):
    card = ideal.override({"forward.offset": 0.01})
    chip = eptsim.Chip(network.model, card, seed=3)
    settings = {"reference": reference, "range_policy": policy}
    g = {
        measurement: eptsim.EPController(
            chip, beta=1e-3, measurement=measurement, **settings
        ).gradient(network.tokens, network.targets)
        for measurement in ("frozen", "centred", "one_sided")
    }

    def drive(layer, array):
        held = chip.arrays[f"layers.{layer}.{array}"].held_range("forward")
        return 1.0 if policy == "fixed" else held

    exact, loss = offset_gradient(network, chip, drive)
    assert all(one.loss == pytest.approx(loss, rel=1e-12) for one in g.values())
    assert error(g["frozen"].grads, exact) < 1e-10
    assert error(g["centred"].grads, exact) < 2e-6
    assert error(g["one_sided"].grads, exact) < 2e-3
    assert error(exact, backprop.grads) > 0.05  # the offsets did matter


def test_forward_offsets_of_several_tiles_add_up(network, ideal, error):
    card = ideal.override({"forward.offset": 0.01, "array.rows": 10, "array.columns": 20})
    chip = eptsim.Chip(network.model, card, seed=3)
    assert chip.arrays["layers.0.w1"].segments("forward") == 4
    ep = eptsim.EPController(chip, measurement="frozen", range_policy="fixed")
    exact, _ = offset_gradient(network, chip, lambda layer, array: 1.0)
    assert error(ep.gradient(network.tokens, network.targets).grads, exact) < 1e-10
    assert set(ARRAYS) == {path.rsplit(".", 1)[1] for path in chip.arrays}
