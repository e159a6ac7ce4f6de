"""The oracle: transformers' Olmo2ForCausalLM with the same weights."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from transformers import Olmo2Config, Olmo2ForCausalLM

from eptsim.olmo2.model import Olmo2
from eptsim.olmo2.shape import Olmo2Shape


@pytest.fixture
def make_model() -> Callable[..., Olmo2]:
    """``make_model(shape, dtype, scale, gain)``: weights grown, norm gains away from 1."""

    def make(
        shape: Olmo2Shape,
        dtype: torch.dtype = torch.float32,
        scale: float = 1.0,
        gain: float = 1.0,
    ) -> Olmo2:
        model = Olmo2(shape, seed=3, dtype=dtype)
        generator = torch.Generator().manual_seed(4)
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.dim() == 1:
                    spread = 0.3 * torch.randn(parameter.shape, generator=generator)
                    parameter.copy_(gain * torch.exp(spread))
                else:
                    parameter.mul_(scale)
        return model

    return make


@pytest.fixture
def make_oracle() -> Callable[[Olmo2], Olmo2ForCausalLM]:
    """``make_oracle(model)``: theirs, in evaluation mode, with the weights of ours."""

    def make(model: Olmo2) -> Olmo2ForCausalLM:
        shape = model.shape
        config = Olmo2Config(
            vocab_size=shape.vocab_size,
            hidden_size=shape.hidden_size,
            intermediate_size=shape.intermediate_size,
            num_hidden_layers=shape.num_hidden_layers,
            num_attention_heads=shape.num_attention_heads,
            rope_theta=shape.rope_theta,
            rms_norm_eps=shape.rms_norm_eps,
            max_position_embeddings=shape.max_position_embeddings,
            pad_token_id=None,
            eos_token_id=None,
        )
        oracle = Olmo2ForCausalLM(config).to(model.dtype).eval()
        oracle.load_state_dict(model.state_dict(), strict=True)
        return oracle

    return make
