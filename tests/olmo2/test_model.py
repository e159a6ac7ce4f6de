"""Olmo2 against transformers' Olmo2ForCausalLM: logits, gradients; seeds; refusals."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from transformers import Olmo2ForCausalLM
from transformers.models.olmo2.modeling_olmo2 import Olmo2RMSNorm

from eptsim.base.errors import InputError
from eptsim.olmo2.block import ARRAYS, MATRICES
from eptsim.olmo2.model import INITIAL_STD, Olmo2
from eptsim.olmo2.shape import Olmo2Shape

Make = Callable[..., Olmo2]
Oracle = Callable[[Olmo2], Olmo2ForCausalLM]

SHAPES = {
    "plain": (2, 10, Olmo2Shape(
        vocab_size=50, hidden_size=32, num_hidden_layers=2, num_attention_heads=4)),
    "one head, one layer, one token": (1, 1, Olmo2Shape(
        vocab_size=2, hidden_size=2, num_hidden_layers=1, num_attention_heads=1)),
    "odd sizes": (3, 17, Olmo2Shape(
        vocab_size=37, hidden_size=42, intermediate_size=29, num_hidden_layers=3,
        num_attention_heads=7, rope_theta=1e4, rms_norm_eps=1e-3)),
    "long": (1, 256, Olmo2Shape(
        vocab_size=300, hidden_size=64, num_hidden_layers=4, num_attention_heads=4,
        max_position_embeddings=256)),
}  # fmt: skip
# Weight scale and norm gain: as drawn, and as after training.
WEIGHTS = {"random": (1.0, 1.0), "large": (10.0, 2.0), "sharp": (10.0, 4.0)}


def _tokens(batch: int, positions: int, vocab: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(8)
    ids = torch.randint(0, vocab, (batch, positions + 1), generator=generator)
    return ids[:, :-1].clone(), ids[:, 1:].clone()


def _their_loss(logits: Tensor, targets: Tensor) -> Tensor:
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def _float64_norm(self: Olmo2RMSNorm, x: Tensor) -> Tensor:
    """Olmo2RMSNorm.forward without its cast to float32."""
    return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon))


def _compare(model: Olmo2, oracle: Olmo2ForCausalLM, case: str) -> tuple[float, float]:
    """Largest difference of the logits; of any parameter's gradient, relative to its norm."""
    batch, positions, shape = SHAPES[case]
    tokens, targets = _tokens(batch, positions, shape.vocab_size)
    theirs = oracle(tokens).logits
    logits = model(tokens)
    assert logits.shape == (batch, positions, shape.vocab_size)
    assert logits.dtype == model.dtype
    _their_loss(theirs, targets).backward()
    model.loss(tokens, targets).backward()
    worst = 0.0
    for (name, ours), (their_name, reference) in zip(
        model.named_parameters(), oracle.named_parameters(), strict=True
    ):
        assert name == their_name
        assert ours.grad is not None
        assert reference.grad is not None
        size = max(float(reference.grad.norm()), 1e-12 * float(reference.detach().norm()))
        worst = max(worst, float((ours.grad - reference.grad).norm()) / size)
    return float((logits - theirs).detach().abs().max()), worst


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("case", SHAPES)
def test_float32(make_model: Make, make_oracle: Oracle, case: str, weights: str) -> None:
    model = make_model(SHAPES[case][2], torch.float32, *WEIGHTS[weights])
    logits, grads = _compare(model, make_oracle(model), case)
    assert logits < 1e-4
    assert grads < 1e-4


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("case", SHAPES)
def test_float64_to_rounding_once_their_norm_keeps_float64(
    make_model: Make,
    make_oracle: Oracle,
    monkeypatch: pytest.MonkeyPatch,
    case: str,
    weights: str,
) -> None:
    monkeypatch.setattr(Olmo2RMSNorm, "forward", _float64_norm)
    model = make_model(SHAPES[case][2], torch.float64, *WEIGHTS[weights])
    logits, grads = _compare(model, make_oracle(model), case)
    assert logits < 1e-10
    assert grads < 1e-9


@pytest.mark.parametrize("case", SHAPES)
def test_float64_against_stock_transformers(
    make_model: Make, make_oracle: Oracle, case: str
) -> None:
    model = make_model(SHAPES[case][2], torch.float64)
    logits, grads = _compare(model, make_oracle(model), case)
    assert logits < 1e-5
    assert grads < 1e-5


def test_float64_gradient_is_the_derivative_of_the_loss(make_model: Make) -> None:
    model = make_model(SHAPES["plain"][2], torch.float64, 5.0)
    tokens, targets = _tokens(2, 10, 50)
    model.loss(tokens, targets).backward()
    generator = torch.Generator().manual_seed(0)
    for parameter in model.parameters():
        step = 1e-5 * torch.randn(parameter.shape, generator=generator).double()
        assert parameter.grad is not None
        with torch.no_grad():
            slope = float((parameter.grad * step).sum())
            parameter += step
            up = float(model.loss(tokens, targets))
            parameter -= 2 * step
            down = float(model.loss(tokens, targets))
            parameter += step
        assert (up - down) / 2 == pytest.approx(slope, rel=1e-4, abs=1e-10)


def test_paper_count_as_built() -> None:
    model = Olmo2(Olmo2Shape.paper())
    assert sum(p.numel() for p in model.parameters()) == 42_754_560


def test_initial_weights() -> None:
    model = Olmo2(SHAPES["long"][2], seed=1)
    for name, parameter in model.state_dict().items():
        if parameter.dim() == 1:
            assert torch.equal(parameter, torch.ones_like(parameter))
        else:
            error = INITIAL_STD / (2 * parameter.numel()) ** 0.5
            assert abs(float(parameter.std()) - INITIAL_STD) < 5 * error, name
            assert abs(float(parameter.mean())) < 5 * INITIAL_STD / parameter.numel() ** 0.5, name


def test_seed_fixes_the_weights_in_every_dtype() -> None:
    shape = SHAPES["plain"][2]
    first, again, other = Olmo2(shape, seed=1), Olmo2(shape, seed=1), Olmo2(shape, seed=2)
    wide = Olmo2(shape, seed=1, dtype=torch.float64)
    for name, parameter in first.named_parameters():
        assert torch.equal(parameter, again.get_parameter(name))
        assert torch.equal(parameter.double(), wide.get_parameter(name))
        if parameter.dim() == 2:
            assert not torch.equal(parameter, other.get_parameter(name))


def test_global_generator_is_not_touched(make_model: Make) -> None:
    before = torch.random.get_rng_state()
    model = Olmo2(SHAPES["plain"][2], seed=1)
    tokens, targets = _tokens(2, 10, 50)
    model.loss(tokens, targets).backward()
    assert torch.equal(torch.random.get_rng_state(), before)


def test_pieces_make_the_whole(make_model: Make) -> None:
    model = make_model(SHAPES["plain"][2])
    tokens, _ = _tokens(2, 10, 50)
    z = model.embed(tokens)
    assert z.shape == (2, 10, 32)
    rotary = model.rotary(10)
    for layer in range(2):
        z = model.block(layer, z, rotary)
    assert torch.equal(model.readout(z), model(tokens))
    assert len(model.blocks()) == 2
    assert model.blocks()[1].ff is model.get_parameter(
        "model.layers.1.post_feedforward_layernorm.weight"
    )


def test_block_weight_stacks_the_parameters() -> None:
    model = Olmo2(SHAPES["odd sizes"][2])
    sizes = {"qkv": (126, 42), "proj": (42, 42), "w1": (29, 42), "w3": (29, 42), "w2": (42, 29)}
    for array in ARRAYS:
        weight = model.block_weight(2, array)
        parts = [model.get_parameter("model.layers.2." + name) for name in MATRICES[array]]
        assert tuple(weight.shape) == sizes[array]
        assert torch.equal(weight, torch.cat(list(parts)))


def test_mean_loss_ignores_marked_positions(make_model: Make) -> None:
    model = make_model(SHAPES["plain"][2])
    tokens, targets = _tokens(2, 10, 50)
    targets[0] = -100
    alone = model.loss(tokens[1:], targets[1:])
    assert torch.allclose(model.loss(tokens, targets), alone, rtol=1e-6)


def test_causal(make_model: Make) -> None:
    model = make_model(SHAPES["plain"][2], torch.float64, 10.0)
    tokens, _ = _tokens(1, 10, 50)
    changed = tokens.clone()
    changed[0, 6] = (changed[0, 6] + 1) % 50
    difference = (model(tokens) - model(changed)).abs().amax(-1)[0]
    assert bool((difference[:6] == 0).all())
    assert bool((difference[6:] > 0).all())


def test_narrow_integer_tokens(make_model: Make) -> None:
    model = make_model(SHAPES["plain"][2])
    tokens, _ = _tokens(2, 10, 50)
    for dtype in (torch.int32, torch.int16, torch.uint8):
        assert torch.equal(model(tokens.to(dtype)), model(tokens))


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        (torch.tensor([1, 2]), r"found shape \(2,\), allowed: \(batch, positions\)"),
        (torch.zeros(1, 2, 3, dtype=torch.int64), r"found shape \(1, 2, 3\)"),
        (torch.zeros(1, 0, dtype=torch.int64), r"found shape \(1, 0\)"),
        (torch.zeros(0, 4, dtype=torch.int64), r"found shape \(0, 4\)"),
        (torch.zeros(1, 257, dtype=torch.int64), r"1 to 256 positions"),
        (torch.zeros(1, 4), r"found dtype torch.float32"),
        (torch.zeros(1, 4, dtype=torch.bool), r"found dtype torch.bool"),
        (torch.tensor([[1, 2], [3, 300]]), r"found 300 at position \(1, 1\), allowed: 0 to 299"),
        (torch.tensor([[1, -1]]), r"found -1 at position \(0, 1\)"),
    ],
)
def test_bad_tokens_are_refused(tokens: Tensor, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Olmo2(SHAPES["long"][2])(tokens)


def test_bad_arguments_are_refused() -> None:
    shape = SHAPES["plain"][2]
    for seed in (-1, 1.0, True, None, 2**63):
        with pytest.raises(InputError, match="seed: found"):
            Olmo2(shape, seed=seed)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"dtype: found torch.float16, allowed: torch.float32"):
        Olmo2(shape, dtype=torch.float16)
    model = Olmo2(shape)
    with pytest.raises(InputError, match="Did you mean 'qkv'"):
        model.block_weight(0, "qvk")
    for layer in (-1, 2):
        with pytest.raises(InputError, match=f"layer: found {layer}, allowed: 0 to 1"):
            model.block_gains(layer)
    tokens, targets = _tokens(2, 10, 50)
    with pytest.raises(InputError, match="found only -100"):
        model.loss(tokens, torch.full_like(targets, -100))
    with pytest.raises(InputError, match=r"targets: found shape \(2, 9\)"):
        model.loss(tokens, targets[:, 1:])


@pytest.mark.parametrize("tokens", [None, [[1]], 3])
def test_tokens_are_a_tensor(tokens):
    shape = Olmo2Shape(vocab_size=7, hidden_size=8, num_hidden_layers=1, num_attention_heads=2)
    with pytest.raises(InputError, match="tokens: found"):
        Olmo2(shape, seed=0)(tokens)
