"""What a state is measured to be, against dF/dtheta by autograd of the formulas."""

from collections import Counter

import pytest
import torch
from torch.nn.functional import cross_entropy, embedding

import eptsim
from eptsim.ep.measure import Accumulator, Weights, measure
from eptsim.ep.state import bottom_up, free_state
from eptsim.olmo2.block import ARRAYS, MATRICES

SUFFIXES = [suffix for group in MATRICES.values() for suffix in group]


@pytest.fixture(scope="module")
def nudged(network, ideal):
    """A chip, a state with an arbitrary mismatch at every block, and nothing settled."""
    chip = eptsim.Chip(network.model, ideal)
    state = free_state(chip, network.tokens, chip.new_pass("free", "per_vector"))
    generator = torch.Generator().manual_seed(4)
    for layer in range(1, 4):
        draw = torch.randn(state.z[0].shape, generator=generator, dtype=torch.float64)
        state.d[layer] = 0.1 * layer * draw
    bottom_up(chip, state, chip.new_pass("nudged", "per_vector"))
    return chip, state


def reference(network, state, weights):
    """weights.energy dE/dtheta + weights.loss dCE/dtheta at the fixed states z_1 .. z_L."""
    model = network.model
    rotary = model.rotary(network.tokens.shape[1])
    below = embedding(network.tokens, model.get_parameter("model.embed_tokens.weight"))
    total = torch.zeros((), dtype=torch.float64)
    for layer in range(3):
        mismatch = state.z[layer + 1] - model.block(layer, below, rotary)
        total = total + weights.energy * 0.5 * mismatch.square().sum()
        below = state.z[layer + 1]
    logits = model.readout(below).flatten(0, 1)
    loss = cross_entropy(logits, network.targets.flatten(), reduction="sum")
    names, values = zip(*model.named_parameters(), strict=True)
    grads = torch.autograd.grad(total + weights.loss * loss, values)
    return dict(zip(names, grads, strict=True)), float(loss.detach())


def take(network, nudged, weights, into=None):
    chip, state = nudged
    into = into or Accumulator(chip)
    trip = chip.new_pass("nudged", "per_vector")
    loss = measure(
        chip, state, state.d, network.tokens, network.targets, weights, into, trip
    )
    return into, loss


@pytest.mark.parametrize("weights", [Weights(1.0, 1.0), Weights(-3.5, 0.25), Weights(1.0, 0.0)])
def test_equals_autograd_of_energy_and_loss(network, nudged, weights):
    into, loss = take(network, nudged, weights)
    expected, expected_loss = reference(network, nudged[1], weights)
    assert loss == pytest.approx(expected_loss, rel=1e-13)
    assert into.grads.keys() == expected.keys()
    for name, value in expected.items():
        assert torch.allclose(into.grads[name], value, rtol=1e-9, atol=1e-11), name


def test_measurements_add_up(network, nudged):
    into, _ = take(network, nudged, Weights(2.0, 1.0))
    take(network, nudged, Weights(-2.0, -1.0), into)
    assert max(float(g.abs().max()) for g in into.grads.values()) < 1e-12


def test_a_block_without_mismatch_adds_nothing(network, nudged):
    chip, state = nudged
    into = Accumulator(chip)
    d = [None, None, state.d[2], None]
    measure(
        chip, state, d, network.tokens, network.targets, Weights(1.0, 0.0), into,
        chip.new_pass("nudged", "per_vector"),
    )
    touched = {name for name, value in into.grads.items() if bool(value.any())}
    assert touched == {n for n in into.grads if n.startswith("model.layers.1.")}


def test_head_alone_gives_the_loss(network, nudged):
    chip, state = nudged
    into = Accumulator(chip)
    loss = into.head(state.z[-1], network.targets, 0.0)
    assert loss == pytest.approx(reference(network, state, Weights(0.0, 1.0))[1], rel=1e-13)
    assert not any(bool(value.any()) for value in into.grads.values())


def test_the_same_token_twice_adds_up_in_the_embedding(network, nudged):
    chip, _ = nudged
    into = Accumulator(chip)
    tokens = torch.tensor([[3, 3, 5]])
    into.embedding(tokens, torch.ones(1, 3, 32, dtype=torch.float64), 2.0)
    rows = into.grads["model.embed_tokens.weight"]
    assert float(rows[3, 0]) == 4.0
    assert float(rows[5, 0]) == 2.0
    assert float(rows.sum()) == 6.0 * 32


# ---- a trap: every array takes part


@pytest.mark.parametrize("layer", [0, 1])
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_each_matrix_changes_its_gradient_and_the_loss(make_network, ideal, layer, suffix):
    """Scaled up by 1 %: the loss, its own gradient and everybody else's move."""
    grads = []
    for scale in (1.0, 1.01):
        net = make_network(hidden=16, heads=2, blocks=2, batch=1, positions=6, vocabulary=20)
        name = f"model.layers.{layer}.{suffix}"
        with torch.no_grad():
            generator = torch.Generator().manual_seed(1)
            value = net.model.get_parameter(name)
            value.add_(torch.randn(value.shape, generator=generator) * (scale - 1.0))
        ep = eptsim.EPController(eptsim.Chip(net.model, ideal), measurement="one_sided", sweeps=2)
        grads.append(ep.gradient(net.tokens, net.targets))
    before, after = grads
    assert before.loss != after.loss
    for other in before.grads:
        size = float(before.grads[other].norm())
        assert size > 0, other
        moved = float((after.grads[other] - before.grads[other]).norm())
        assert moved > 1e-6 * size, other


# ---- the ledger, counted by hand


def by_array(counter, direction, phase):
    return {k.array: n for k, n in counter.items() if (k.direction, k.phase) == (direction, phase)}


@pytest.fixture
def ledger(network, ideal):
    """Of one centred gradient with reference ``line`` at 2 sweeps, calibration left out."""
    card = ideal.override({"array.rows": 16, "array.columns": 48})
    chip = eptsim.Chip(network.model, card)
    ep = eptsim.EPController(chip, measurement="centred", reference="line", sweeps=2)
    ep.calibrate(network.tokens, network.targets)
    chip.ledger.clear()
    ep.gradient(network.tokens, network.targets)
    return chip.ledger


def test_reads_of_one_gradient(ledger, network):
    n = network.tokens.numel()  # vectors of one pass
    paths = [f"layers.{layer}.{array}" for layer in range(3) for array in ARRAYS]
    # free: one bottom-up pass, and every transposed line read once for its zero
    assert by_array(ledger.reads, "forward", "free") == dict.fromkeys(paths, n)
    assert by_array(ledger.reads, "transpose", "free") == dict.fromkeys(paths, n)
    for phase in ("nudged+", "nudged-"):
        # two sweeps up
        assert by_array(ledger.reads, "forward", phase) == dict.fromkeys(paths, 2 * n)
        # two sweeps down, that stop above the clamped embedding, and one measurement
        assert by_array(ledger.reads, "transpose", phase) == {
            path: n if path.startswith("layers.0.") else 3 * n for path in paths
        }
    assert {key.phase for key in ledger.reads} == {"free", "nudged+", "nudged-"}


def test_conversions_of_one_gradient(ledger, network):
    n = network.tokens.numel()
    # W_2 is 32 x 128: its 128 inputs take 8 tiles of 16 rows, its 32 outputs 1 tile of 48 columns
    drives = by_array(ledger.dac_conversions, "forward", "free")["layers.1.w2"]
    lines = by_array(ledger.adc_conversions, "forward", "free")["layers.1.w2"]
    assert (drives, lines) == (n * 128 * 1, n * 32 * 8)
    drives = by_array(ledger.dac_conversions, "transpose", "free")["layers.1.w2"]
    lines = by_array(ledger.adc_conversions, "transpose", "free")["layers.1.w2"]
    assert (drives, lines) == (n * 32 * 8, n * 128 * 1)
    # W_qkv is 96 x 32: 2 tiles of inputs, 2 of outputs
    assert by_array(ledger.dac_conversions, "forward", "nudged+")["layers.0.qkv"] == 2 * n * 32 * 2
    assert by_array(ledger.adc_conversions, "forward", "nudged+")["layers.0.qkv"] == 2 * n * 96 * 2


def test_digital_operations_of_one_gradient(ledger, network):
    n, c, v, layers = network.tokens.numel(), 32, 40, 3
    pairs = 2 * sum(range(1, 13))  # (query, key) pairs of 2 sequences under the causal mask
    found = Counter({(k.operation, k.phase): m for k, m in ledger.digital.items()})
    assert found["attention_mac", "free"] == layers * 2 * pairs * c
    # per nudged phase: 2 sweeps up (3 blocks each), 2 down (2 blocks each), 1 measurement (3)
    up, vjp = 2 * 3, 2 * 2 + 3
    assert found["attention_mac", "nudged+"] == (up * 2 + vjp * 6) * pairs * c
    cells = sum(
        network.model.get_parameter(f"model.layers.{layer}.{s}").numel()
        for layer in range(layers) for s in SUFFIXES
    )
    assert found["outer_product_mac", "nudged-"] == n * cells
    # the top force of each sweep, and the measurement
    assert found["readout_mac", "nudged+"] == 3 * n * c * v


def test_free_phase_reads_are_enough_for_a_settled_free_phase(network, ideal):
    """Reference ``weight`` with node offsets: sweeps and a measurement in the free phase too."""
    chip = eptsim.Chip(network.model, ideal.override({"node.offset": 1e-3}))
    ep = eptsim.EPController(
        chip, measurement="one_sided", reference="weight", range_policy="fixed", sweeps=3
    )
    ep.gradient(network.tokens, network.targets)
    n = network.tokens.numel()
    for phase, extra in (("free", 1), ("nudged", 0)):
        forward = by_array(chip.ledger.reads, "forward", phase)
        transposed = by_array(chip.ledger.reads, "transpose", phase)
        assert set(forward.values()) == {(3 + extra) * n}
        assert {transposed[f"layers.{layer}.w1"] // n for layer in (1, 2)} == {4}
        assert transposed["layers.0.w1"] == n
