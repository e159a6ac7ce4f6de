"""The yardstick against transformers' own backward pass, and the checks of its input."""

import copy

import pytest
import torch
from transformers import Olmo2Config, Olmo2ForCausalLM

import eptsim
from eptsim.base.errors import InputError
from eptsim.ep.gradient import check_targets


@pytest.fixture(scope="module", params=[torch.float32, torch.float64], ids=str)
def pair(request, make_network):
    """A network of ours and transformers' gradients of the same weights and batch."""
    net = make_network(dtype=request.param)
    net.targets = net.targets.clone()
    net.targets[1, 4:7] = -100
    shape = net.model.shape
    config = Olmo2Config(
        vocab_size=shape.vocab_size, hidden_size=shape.hidden_size,
        intermediate_size=shape.intermediate_size, num_hidden_layers=shape.num_hidden_layers,
        num_attention_heads=shape.num_attention_heads, rope_theta=shape.rope_theta,
        rms_norm_eps=shape.rms_norm_eps, max_position_embeddings=shape.max_position_embeddings,
        pad_token_id=None, eos_token_id=None,
    )
    theirs = Olmo2ForCausalLM(config).to(request.param).eval()
    theirs.load_state_dict(net.model.state_dict(), strict=True)
    # transformers shifts its labels itself: one column in front is never used as a target
    labels = torch.cat([torch.full((2, 1), -100), net.targets], dim=1)
    tokens = torch.cat([net.tokens, torch.zeros((2, 1), dtype=torch.int64)], dim=1)
    loss = theirs(input_ids=tokens, labels=labels).loss
    loss.backward()
    grads = {name: value.grad for name, value in theirs.named_parameters()}
    return net, grads, float(loss.detach())


def test_equals_the_backward_pass_of_transformers(pair, error):
    net, theirs, loss = pair
    g = eptsim.backprop_gradient(net.model, net.tokens, net.targets)
    assert g.loss == pytest.approx(loss, rel=1e-6)
    assert g.grads.keys() == theirs.keys()
    for name in theirs:
        assert error(g.grads, theirs, name) < 1e-4, name


def test_a_frozen_measurement_on_an_ideal_chip_equals_it_too(pair, ideal, gradient_on, error):
    net, theirs, loss = pair
    g = gradient_on(net, ideal, measurement="frozen")
    assert g.loss == pytest.approx(loss, rel=1e-6)
    assert error(g.grads, theirs) < 1e-4


def test_equals_autograd_of_the_loss_and_leaves_grad_alone(network, backprop):
    model = network.model
    assert all(value.grad is None for value in model.parameters())
    names, values = zip(*model.named_parameters(), strict=True)
    loss = model.loss(network.tokens, network.targets)
    expected = dict(zip(names, torch.autograd.grad(loss, values), strict=True))
    assert backprop.loss == float(loss.detach())
    assert backprop.phases == ()
    assert all(torch.equal(backprop.grads[name], expected[name]) for name in names)


def test_a_parameter_without_gradient_is_refused(make_network):
    net = make_network(hidden=16, heads=2, blocks=1, batch=1, positions=4)
    net.model.get_parameter("lm_head.weight").requires_grad_(False)
    with pytest.raises(InputError, match=r"requires_grad False on lm_head\.weight"):
        eptsim.backprop_gradient(net.model, net.tokens, net.targets)


def ids(*rows):
    return torch.tensor(rows)


BAD = {
    "beyond the vocabulary": (ids([0, 40]), ids([1, 2]), r"tokens: found 40 at position \(0, 1\)"),
    "negative token": (ids([0, -1]), ids([1, 2]), "tokens: found -1"),
    "ignored token": (ids([0, -100]), ids([1, 2]), "tokens: found -100"),
    "float tokens": (ids([0.0, 1.0]), ids([1, 2]), "tokens: found dtype torch.float32"),
    "bool tokens": (ids([True, False]), ids([1, 2]), "tokens: found dtype torch.bool"),
    "float targets": (ids([0, 1]), ids([1.0, 2.0]), "targets: found dtype torch.float32"),
    "target beyond the vocabulary": (ids([0, 1]), ids([1, 40]), "targets: found 40"),
    "other negative target": (ids([0, 1]), ids([1, -1]), "targets: found -1"),
    "shapes": (ids([0, 1]), ids([1]), r"targets: found shape \(1, 1\), allowed: .*\(1, 2\)"),
    "one dimension": (torch.tensor([0, 1]), torch.tensor([1, 2]), r"tokens: found shape \(2,\)"),
    "transposed": (ids([0, 1]), ids([0], [1]), r"targets: found shape \(2, 1\)"),
    "no target": (ids([0, 1]), ids([-100, -100]), "targets: found only -100"),
    "empty batch": (torch.empty((0, 4), dtype=torch.int64), torch.empty((0, 4)), "tokens: found"),
    "no positions": (torch.empty((2, 0), dtype=torch.int64), torch.empty((2, 0)), "tokens: found"),
    "list": ([[0, 1]], ids([1, 2]), "tokens: found list, allowed: an integer tensor"),
    "None": (ids([0, 1]), None, "targets: found NoneType"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_tokens_and_targets_are_refused(network, ideal, case):
    tokens, targets, match = BAD[case]
    with pytest.raises(InputError, match=match):
        check_targets(network.model, tokens, targets)
    with pytest.raises(InputError, match=match):
        eptsim.backprop_gradient(network.model, tokens, targets)
    with pytest.raises(InputError, match=match):
        eptsim.EPController(eptsim.Chip(network.model, ideal)).gradient(tokens, targets)


def test_longer_than_the_model_allows(make_network):
    shape = eptsim.Olmo2Shape(
        vocab_size=20, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
        max_position_embeddings=4,
    )
    tokens = torch.zeros((1, 5), dtype=torch.int64)
    with pytest.raises(InputError, match="max_position_embeddings"):
        eptsim.backprop_gradient(eptsim.Olmo2(shape), tokens, tokens)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int16, torch.uint8])
def test_any_integer_dtype_will_do(network, backprop, ideal, error, gradient_on, dtype):
    net = copy.copy(network)
    net.tokens, net.targets = network.tokens.to(dtype), network.targets.to(dtype)
    g = eptsim.backprop_gradient(net.model, net.tokens, net.targets)
    assert error(g, backprop) == 0.0
    assert error(gradient_on(net, ideal, measurement="frozen"), backprop) < 1e-12


def test_targets_are_counted(network):
    assert check_targets(network.model, ids([0, 1, 2]), ids([1, -100, 0])) == 2


@pytest.mark.parametrize(
    ("model", "card", "match"),
    [
        (None, "ideal", "Chip: model: found NoneType, allowed: eptsim.Olmo2"),
        (torch.nn.Linear(2, 2), "ideal", "Chip: model: found Linear"),
        ("model", "name", "Chip: card: found str, allowed: a Card"),
        ("model", None, "Chip: card: found NoneType"),
    ],
)
def test_a_chip_needs_a_model_and_a_card(network, ideal, model, card, match):
    given = network.model if model == "model" else model
    with pytest.raises(InputError, match=match):
        eptsim.Chip(given, ideal if card == "ideal" else card)
