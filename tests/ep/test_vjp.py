"""Block VJP and outer products against torch.autograd on the model's own block."""

import pytest
import torch

import eptsim
from eptsim.ep.state import free_state
from eptsim.ep.vjp import block_vjp
from eptsim.olmo2.block import GAINS, MATRICES


@pytest.fixture(scope="module", params=[torch.float64, torch.float32], ids=str)
def case(request, make_network, ideal):
    """A chip in both dtypes, its free state, and a random mismatch."""
    net = make_network(dtype=request.param, positions=9)
    chip = eptsim.Chip(net.model, ideal)
    state = free_state(chip, net.tokens, chip.new_pass("test", "per_vector"))
    generator = torch.Generator().manual_seed(8)
    d = torch.randn(state.z[0].shape, generator=generator, dtype=torch.float64).to(request.param)
    bound = 1e-12 if request.param == torch.float64 else 3e-5
    return net.model, chip, state, d, bound


def close(found, expected, bound):
    assert found.shape == expected.shape
    assert float((found - expected).norm()) <= bound * float(expected.norm())


@pytest.mark.parametrize("layer", [0, 1, 2])
def test_equals_the_autograd_vjp_of_the_block(case, layer):
    model, chip, state, d, bound = case
    rotary = model.rotary(d.shape[1])
    trip = chip.new_pass("test", "per_vector")
    found = block_vjp(chip, layer, state.z[layer], state.lines[layer], d, rotary, trip)
    _, expected = torch.autograd.functional.vjp(
        lambda z: model.block(layer, z, rotary), state.z[layer], d
    )
    close(found, expected, bound)


@pytest.mark.parametrize("layer", [0, 2])
def test_outer_products_and_gains_equal_autograd(case, layer):
    model, chip, state, d, bound = case
    rotary = model.rotary(d.shape[1])
    outers, gains = {}, {}

    def outer(array, delta, x):
        assert delta.shape[:2] == x.shape[:2] == d.shape[:2]
        outers[array] = torch.einsum("bto,bti->oi", delta, x)

    block_vjp(
        chip, layer, state.z[layer], state.lines[layer], d, rotary,
        chip.new_pass("test", "per_vector"), outer, gains.__setitem__,
    )
    names = [s for group in MATRICES.values() for s in group] + list(GAINS.values())
    values = [model.get_parameter(f"model.layers.{layer}.{name}") for name in names]
    inner = (d * model.block(layer, state.z[layer], rotary)).sum()
    expected = dict(zip(names, torch.autograd.grad(inner, values), strict=True))
    for array, suffixes in MATRICES.items():
        close(outers[array], torch.cat([expected[s] for s in suffixes]), bound)
    for field, name in GAINS.items():
        close(gains[field], expected[name], bound)


def test_is_linear_in_the_mismatch_and_writes_to_nothing(case):
    model, chip, state, d, bound = case
    rotary = model.rotary(d.shape[1])
    before = d.clone(), {name: line.clone() for name, line in state.lines[1].items()}

    def at(mismatch):
        trip = chip.new_pass("test", "per_vector")
        return block_vjp(chip, 1, state.z[1], state.lines[1], mismatch, rotary, trip)

    close(at(-3.0 * d), -3.0 * at(d), bound)
    assert float(at(torch.zeros_like(d)).abs().max()) == 0.0
    assert torch.equal(d, before[0])
    assert all(torch.equal(state.lines[1][name], line) for name, line in before[1].items())


def test_holds_no_graph_and_works_without_autograd(case):
    model, chip, state, d, _ = case
    rotary = model.rotary(d.shape[1])
    results = []
    for context in (torch.enable_grad, torch.no_grad):
        with context():
            trip = chip.new_pass("test", "per_vector")
            results.append(block_vjp(chip, 0, state.z[0], state.lines[0], d, rotary, trip))
    assert not any(r.requires_grad for r in results)
    assert torch.equal(*results)


def test_reads_each_array_once_transposed(case):
    model, chip, state, d, _ = case
    chip.ledger.clear()
    trip = chip.new_pass("counted", "per_vector")
    block_vjp(chip, 1, state.z[1], state.lines[1], d, model.rotary(d.shape[1]), trip)
    vectors = d.shape[0] * d.shape[1]
    assert {(k.array, k.direction): n for k, n in chip.ledger.reads.items()} == {
        (f"layers.1.{array}", "transpose"): vectors for array in MATRICES
    }


@pytest.mark.parametrize("array", MATRICES)
def test_every_array_carries_part_of_the_signal(case, array):
    """A transposed read that came back as zeros would change the result, whichever the array."""
    model, chip, state, d, _ = case
    rotary = model.rotary(d.shape[1])
    trip = chip.new_pass("test", "per_vector")
    args = (1, state.z[1], state.lines[1], d, rotary, trip)

    class Cut:
        """The chip with one array's transposed reads cut."""

        model = chip.model

        def read_transpose(self, layer, name, x, trip):
            y = chip.read_transpose(layer, name, x, trip)
            return torch.zeros_like(y) if name == array else y

    whole, cut = block_vjp(chip, *args), block_vjp(Cut(), *args)
    assert float((whole - cut).norm()) > 1e-3 * float(whole.norm())
