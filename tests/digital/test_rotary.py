"""Rotary tables and rotation against transformers and against complex numbers."""

import math

import pytest
import torch
from transformers import Olmo2Config
from transformers.models.olmo2.modeling_olmo2 import Olmo2RotaryEmbedding, apply_rotary_pos_emb

from eptsim.base.errors import InputError
from eptsim.digital.rotary import Rotary, rotary_table, rotate, rotate_vjp

THETA = 5e5


def _theirs(positions: int, head_dim: int) -> tuple[torch.Tensor, torch.Tensor]:
    config = Olmo2Config(
        vocab_size=8,
        hidden_size=2 * head_dim,
        num_attention_heads=2,
        rope_theta=THETA,
        pad_token_id=None,
        eos_token_id=None,
    )
    cos, sin = Olmo2RotaryEmbedding(config)(torch.zeros(1), torch.arange(positions)[None])
    return cos[0], sin[0]


@pytest.mark.parametrize("head_dim", [2, 8, 64])
@pytest.mark.parametrize("positions", [1, 33, 2048])
def test_float32_angles_are_transformers_bit_for_bit(positions: int, head_dim: int) -> None:
    cos, sin = _theirs(positions, head_dim)
    for dtype in (torch.float32, torch.float64):
        table = rotary_table(positions, head_dim, THETA, dtype, angles="float32")
        assert table.cos.dtype == table.sin.dtype == dtype
        assert torch.equal(table.cos, cos.to(dtype))
        assert torch.equal(table.sin, sin.to(dtype))


def test_float64_angles_are_the_formula() -> None:
    table = rotary_table(300, 16, THETA, torch.float64)
    assert table.positions == 300
    for t, i in ((0, 0), (1, 0), (299, 1), (123, 7)):
        angle = t * THETA ** (-2 * i / 16)
        for column in (i, i + 8):
            assert table.cos[t, column].item() == pytest.approx(math.cos(angle), abs=1e-13)
            assert table.sin[t, column].item() == pytest.approx(math.sin(angle), abs=1e-13)


def test_transformers_angles_are_off_by_less_than_6e_8_per_position() -> None:
    exact = rotary_table(256, 64, THETA, torch.float64)
    cos, _ = _theirs(256, 64)
    assert 1e-6 < (exact.cos - cos).abs().max() < 256 * 6.1e-8 * 1.1


def test_rotate_is_transformers() -> None:
    generator = torch.Generator().manual_seed(0)
    q = torch.randn(2, 3, 10, 8, generator=generator)
    table = rotary_table(10, 8, THETA, angles="float32")
    theirs, _ = apply_rotary_pos_emb(q, q, table.cos[None], table.sin[None])
    assert torch.equal(rotate(q, table), theirs)


def test_rotate_is_a_complex_product_and_depends_on_distance_only() -> None:
    generator = torch.Generator().manual_seed(0)
    q = torch.randn(8, generator=generator, dtype=torch.float64)
    k = torch.randn(8, generator=generator, dtype=torch.float64)
    table = rotary_table(40, 8, THETA, torch.float64)
    turned = rotate(q.expand(40, 8), table)
    phase = torch.polar(
        torch.ones(4, dtype=torch.float64), torch.atan2(table.sin, table.cos)[7, :4]
    )
    expected = torch.complex(q[:4], q[4:]) * phase
    assert torch.allclose(torch.complex(turned[7, :4], turned[7, 4:]), expected, atol=1e-14)
    scores = turned @ rotate(k.expand(40, 8), table).T
    assert torch.allclose(scores[3, 1], scores[39, 37], atol=1e-13)


def test_positions_of_a_shorter_table_are_the_first_of_a_longer_one() -> None:
    short, long = rotary_table(5, 8, THETA), rotary_table(50, 8, THETA)
    assert torch.equal(short.cos, long.cos[:5])


def test_rotary_is_frozen() -> None:
    table = rotary_table(5, 8, THETA)
    with pytest.raises(AttributeError):
        table.cos = table.sin  # type: ignore[misc]
    assert isinstance(table, Rotary)


@pytest.mark.parametrize(
    ("positions", "head_dim", "theta", "angles", "message"),
    [
        (0, 8, THETA, "float64", "positions: found 0"),
        (5, 7, THETA, "float64", "head_dim: found 7"),
        (5, 0, THETA, "float64", "head_dim: found 0"),
        (5, 8, 0.0, "float64", "theta: found 0.0"),
        (5, 8, math.nan, "float64", "theta: found nan"),
        (5, 8, THETA, "float46", "Did you mean 'float64'"),
    ],
)
def test_refusals(positions: int, head_dim: int, theta: float, angles: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        rotary_table(positions, head_dim, theta, angles=angles)


def test_written_out_vjp_is_autograds() -> None:
    generator = torch.Generator().manual_seed(0)
    table = rotary_table(7, 12, 5e5, torch.float64)
    x = torch.randn(2, 3, 7, 12, generator=generator, dtype=torch.float64, requires_grad=True)
    d = torch.randn(2, 3, 7, 12, generator=generator, dtype=torch.float64)
    (want,) = torch.autograd.grad(rotate(x, table), x, d)
    got = torch.empty_like(d)
    rotate_vjp(d, table, got)
    assert torch.allclose(got, want, rtol=0, atol=1e-14)
