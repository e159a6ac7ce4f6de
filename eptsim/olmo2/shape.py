"""The size of an OLMo2 decoder, in Hugging Face's configuration names."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass

from eptsim.base.errors import InputError

PAPER_POSITIONS = 256
"""Context length T of the paper-size model, in tokens."""


def default_intermediate_size(hidden_size: int) -> int:
    """``8 C / 3`` rounded up to a multiple of 64."""
    return -(-8 * hidden_size // (3 * 64)) * 64


def _count(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or int(value) < 1:
        raise InputError(f"Olmo2Shape: {name}: found {value!r}, allowed: an integer, 1 or more")
    return int(value)


def _positive(name: str, value: object) -> float:
    number = float(value) if isinstance(value, numbers.Real) else math.nan
    if isinstance(value, bool) or not (math.isfinite(number) and number > 0):
        raise InputError(f"Olmo2Shape: {name}: found {value!r}, allowed: a finite number above 0")
    return number


@dataclass(frozen=True, init=False)
class Olmo2Shape:
    """What fixes the form of an OLMo2 decoder; every argument is given by keyword.

    Raises
    ------
    InputError
        A size that is not a positive integer, a ``hidden_size`` that the heads do not divide, an
        odd head width (RoPE rotates pairs), a ``rope_theta`` or ``rms_norm_eps`` not above 0.
    """

    vocab_size: int
    """V, number of token ids."""
    hidden_size: int
    """C, width of the block state."""
    intermediate_size: int
    """h_ff, width of the gate; by default 8C/3 rounded up to a multiple of 64."""
    num_hidden_layers: int
    """L, number of blocks."""
    num_attention_heads: int
    """H; every head has keys and values of its own."""
    rope_theta: float
    """Base of the rotary frequencies."""
    rms_norm_eps: float
    """Added to the mean square in every norm."""
    max_position_embeddings: int
    """The longest sequence T that is accepted, in tokens."""

    def __init__(
        self,
        *,
        vocab_size: int,
        hidden_size: int,
        num_hidden_layers: int,
        num_attention_heads: int,
        intermediate_size: int | None = None,
        rope_theta: float = 5e5,
        rms_norm_eps: float = 1e-5,
        max_position_embeddings: int = 2048,
    ) -> None:
        width = _count("hidden_size", hidden_size)
        heads = _count("num_attention_heads", num_attention_heads)
        if width % (2 * heads):
            raise InputError(
                f"Olmo2Shape: hidden_size: found {width} with num_attention_heads {heads}, "
                f"allowed: a multiple of {2 * heads}, so that each head has an even width"
            )
        gate = default_intermediate_size(width) if intermediate_size is None else intermediate_size
        self._set("vocab_size", _count("vocab_size", vocab_size))
        self._set("hidden_size", width)
        self._set("intermediate_size", _count("intermediate_size", gate))
        self._set("num_hidden_layers", _count("num_hidden_layers", num_hidden_layers))
        self._set("num_attention_heads", heads)
        self._set("rope_theta", _positive("rope_theta", rope_theta))
        self._set("rms_norm_eps", _positive("rms_norm_eps", rms_norm_eps))
        positions = _count("max_position_embeddings", max_position_embeddings)
        self._set("max_position_embeddings", positions)

    def _set(self, name: str, value: int | float) -> None:
        object.__setattr__(self, name, value)  # the dataclass is frozen

    @classmethod
    def paper(cls, vocab_size: int = 4096) -> Olmo2Shape:
        """The paper-size decoder: C = 512, H = 8, L = 12, h_ff = 1408, T up to 256."""
        return cls(
            vocab_size=vocab_size,
            hidden_size=512,
            num_hidden_layers=12,
            num_attention_heads=8,
            max_position_embeddings=PAPER_POSITIONS,
        )

    @property
    def head_dim(self) -> int:
        """h_d = C / H."""
        return self.hidden_size // self.num_attention_heads

    def parameter_shapes(self) -> dict[str, tuple[int, ...]]:
        """Every parameter's Hugging Face name and shape, in transformers' order."""
        c, f = self.hidden_size, self.intermediate_size
        block: dict[str, tuple[int, ...]] = {
            "self_attn.q_proj.weight": (c, c),
            "self_attn.k_proj.weight": (c, c),
            "self_attn.v_proj.weight": (c, c),
            "self_attn.o_proj.weight": (c, c),
            "self_attn.q_norm.weight": (c,),
            "self_attn.k_norm.weight": (c,),
            "mlp.gate_proj.weight": (f, c),
            "mlp.up_proj.weight": (f, c),
            "mlp.down_proj.weight": (c, f),
            "post_attention_layernorm.weight": (c,),
            "post_feedforward_layernorm.weight": (c,),
        }
        shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (self.vocab_size, c)}
        for layer in range(self.num_hidden_layers):
            shapes.update({f"model.layers.{layer}.{name}": size for name, size in block.items()})
        shapes["model.norm.weight"] = (c,)
        shapes["lm_head.weight"] = (self.vocab_size, c)
        return shapes

    def parameter_count(self) -> int:
        """Number of trained scalars, embedding and readout included."""
        return sum(math.prod(size) for size in self.parameter_shapes().values())
