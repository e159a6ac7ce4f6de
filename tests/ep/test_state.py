"""The free state against the model's own forward pass."""

import torch

import eptsim
from eptsim.ep.state import bottom_up, free_state
from eptsim.olmo2.block import ARRAYS


def make(network, card):
    chip = eptsim.Chip(network.model, card)
    return chip, free_state(chip, network.tokens, chip.new_pass("free", "per_vector"))


def test_free_state_is_the_forward_pass(network, ideal):
    chip, state = make(network, ideal)
    model = network.model
    rotary = model.rotary(network.tokens.shape[1])
    with torch.no_grad():
        z = model.embed(network.tokens)
        assert torch.equal(state.z[0], z)
        for layer in range(3):
            z = model.block(layer, z, rotary)
            assert torch.allclose(state.z[layer + 1], z, rtol=1e-12, atol=1e-12)
        assert torch.allclose(model.readout(state.z[3]), model(network.tokens), atol=1e-11)
    assert len(state.z) == len(state.d) == chip.layers + 1
    assert state.d == [None] * 4
    assert state.energies() == [0.0, 0.0, 0.0]


def test_lines_are_what_the_arrays_read(network, ideal):
    _, state = make(network, ideal)
    for layer in range(3):
        assert tuple(state.lines[layer]) == ARRAYS
        with torch.no_grad():
            expected = state.z[layer] @ network.model.block_weight(layer, "qkv").T
        assert torch.allclose(state.lines[layer]["qkv"], expected, rtol=1e-12, atol=1e-12)


def test_bottom_up_adds_the_mismatches(network, ideal):
    chip, state = make(network, ideal)
    generator = torch.Generator().manual_seed(2)
    d = [torch.randn(state.z[0].shape, generator=generator, dtype=torch.float64) for _ in range(4)]
    state.d = [None, 0.1 * d[1], None, 0.2 * d[3]]
    bottom_up(chip, state, chip.new_pass("nudged", "per_vector"))
    rotary = network.model.rotary(network.tokens.shape[1])
    with torch.no_grad():
        for layer in range(3):
            away = state.z[layer + 1] - network.model.block(layer, state.z[layer], rotary)
            mismatch = state.d[layer + 1]
            expected = torch.zeros_like(away) if mismatch is None else mismatch
            assert torch.allclose(away, expected, atol=1e-12)
    squares = [0.01 * float((d[1] ** 2).sum()), 0.0, 0.04 * float((d[3] ** 2).sum())]
    assert torch.allclose(torch.tensor(state.energies()), torch.tensor(squares) / 2)


def test_settling_a_copy_leaves_the_state_alone(network, ideal):
    chip, state = make(network, ideal)
    z, lines = [x.clone() for x in state.z], [dict(held) for held in state.lines]
    copy = state.copy()
    copy.d[1] = torch.ones_like(state.z[0])
    bottom_up(chip, copy, chip.new_pass("nudged", "per_vector"))
    assert not torch.equal(copy.z[3], state.z[3])
    assert state.d == [None] * 4
    assert all(torch.equal(a, b) for a, b in zip(state.z, z, strict=True))
    for held, before in zip(state.lines, lines, strict=True):
        assert all(held[name] is before[name] for name in ARRAYS)


def test_the_embedding_is_clamped(network, ideal):
    chip, state = make(network, ideal)
    before = state.z[0].clone()
    state.d[1] = torch.ones_like(before)
    bottom_up(chip, state, chip.new_pass("nudged", "per_vector"))
    assert torch.equal(state.z[0], before)


def test_states_need_no_gradient(network, ideal):
    _, state = make(network, ideal)
    assert not any(z.requires_grad for z in state.z)
    assert not any(line.requires_grad for held in state.lines for line in held.values())


def test_reads_and_operations_are_counted_under_the_phase(network, ideal):
    chip, _ = make(network, ideal)
    vectors = network.tokens.numel()
    assert {tuple(key): n for key, n in chip.ledger.reads.items()} == {
        (f"layers.{layer}.{array}", "forward", "free"): vectors
        for layer in range(3)
        for array in ARRAYS
    }
    assert {key.phase for key in chip.ledger.digital} == {"free"}
