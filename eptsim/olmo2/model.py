"""The OLMo2 decoder: embedding, blocks, final norm, untied readout; no biases."""

from __future__ import annotations

import os

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding, linear

from eptsim.base.errors import InputError, choice
from eptsim.digital.loss import check_ids, count_targets, cross_entropy_sum
from eptsim.digital.norms import rms_norm
from eptsim.digital.rotary import Rotary, rotary_table
from eptsim.olmo2.block import ARRAYS, GAINS, MATRICES, BlockGains, block_forward
from eptsim.olmo2.checkpoint import DTYPES, read_checkpoint, write_checkpoint
from eptsim.olmo2.shape import Olmo2Shape

INITIAL_STD = 0.02
"""Standard deviation of freshly drawn weights, dimensionless."""


def check_seed(seed: object) -> None:
    """Raise InputError unless ``seed`` is an integer in [0, 2^63)."""
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**63:
        raise InputError(f"Olmo2: seed: found {seed!r}, allowed: an integer, 0 to 2^63 - 1")


class Olmo2(nn.Module):
    """A stock OLMo2 decoder whose parameters carry Hugging Face's names.

    With the same weights it gives the logits of ``transformers.Olmo2ForCausalLM``, to rounding.

    Parameters
    ----------
    shape : Olmo2Shape
    seed : int
        Of the private generator that draws the weights (normal, ``INITIAL_STD``; gains are 1).
        The same seed gives the same values in float32 and in float64.
    dtype : torch.dtype
        torch.float32 or torch.float64.

    Raises
    ------
    InputError
        Negative or non-integer ``seed``, or another ``dtype``.
    """

    def __init__(
        self, shape: Olmo2Shape, seed: int = 0, dtype: torch.dtype = torch.float32
    ) -> None:
        super().__init__()
        check_seed(seed)
        if dtype not in DTYPES:
            raise InputError(
                f"Olmo2: dtype: found {dtype!r}, allowed: {', '.join(map(str, DTYPES))}"
            )
        self.shape = shape
        generator = torch.Generator().manual_seed(seed)
        for name, size in shape.parameter_shapes().items():
            if len(size) == 1:
                value = torch.ones(size, dtype=dtype)
            else:
                value = torch.empty(size).normal_(0.0, INITIAL_STD, generator=generator).to(dtype)
            self._register(name, value)

    def _register(self, name: str, value: Tensor) -> None:
        """Hang a parameter at a dotted name, making the modules on the way."""
        *path, leaf = name.split(".")
        module: nn.Module = self
        for part in path:
            children = dict(module.named_children())
            if part not in children:
                module.add_module(part, nn.Module())
            module = module.get_submodule(part)
        module.register_parameter(leaf, nn.Parameter(value))

    @classmethod
    def from_pretrained(
        cls, folder: str | os.PathLike[str], dtype: torch.dtype | None = None
    ) -> Olmo2:
        """Open a checkpoint folder in Hugging Face's layout.

        ``dtype`` as in ``eptsim.olmo2.checkpoint.read_checkpoint``, which also lists the errors
        (all CheckpointError).
        """
        shape, tensors = read_checkpoint(folder, dtype)
        model = cls(shape, dtype=tensors["lm_head.weight"].dtype)
        model.load_state_dict(tensors, assign=True)
        return model

    def save_pretrained(self, folder: str | os.PathLike[str]) -> None:
        """Write ``config.json`` and ``model.safetensors``, which transformers opens as its own.

        Each file appears complete or not at all. Raises CheckpointError where a weight is not
        finite or the folder cannot be written.
        """
        tensors = {name: value.detach() for name, value in self.named_parameters()}
        write_checkpoint(folder, self.shape, tensors)

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the weights, in which everything is computed."""
        return self.get_parameter("lm_head.weight").dtype

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return self.get_parameter("lm_head.weight").device

    def rotary(self, positions: int, device: torch.device | str | None = None) -> Rotary:
        """The rotary table of T positions, (T, h_d), in the model's dtype.

        ``device`` defaults to the model's. The angles are float32 in every dtype, as in
        transformers, so that a stock checkpoint means the same network here.
        """
        return rotary_table(
            positions,
            self.shape.head_dim,
            self.shape.rope_theta,
            self.dtype,
            self.device if device is None else device,
            angles="float32",
        )

    def block_gains(self, layer: int) -> BlockGains:
        """The four norm gains of block ``layer``, each (C,): the parameters themselves."""
        prefix = self._prefix(layer)
        return BlockGains(
            q=self.get_parameter(prefix + GAINS["q"]),
            k=self.get_parameter(prefix + GAINS["k"]),
            attn=self.get_parameter(prefix + GAINS["attn"]),
            ff=self.get_parameter(prefix + GAINS["ff"]),
        )

    def blocks(self) -> tuple[BlockGains, ...]:
        """The norm gains of every block, from the bottom up."""
        return tuple(self.block_gains(layer) for layer in range(self.shape.num_hidden_layers))

    def block_weight(self, layer: int, array: str) -> Tensor:
        """The matrix (out, in) that ``array`` of block ``layer`` holds, one of ``ARRAYS``.

        Differentiable with respect to the parameters; fused arrays are stacked copies of them.
        """
        choice(array, ARRAYS, "Olmo2: array")
        prefix = self._prefix(layer)
        parts: list[Tensor] = [self.get_parameter(prefix + name) for name in MATRICES[array]]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def _prefix(self, layer: int) -> str:
        if not 0 <= layer < self.shape.num_hidden_layers:
            raise InputError(
                f"Olmo2: layer: found {layer}, allowed: 0 to {self.shape.num_hidden_layers - 1}"
            )
        return f"model.layers.{layer}."

    def check_tokens(self, tokens: Tensor) -> None:
        """Raise InputError unless ``tokens`` are ids of this model, of shape (B, T).

        T from 1 to ``max_position_embeddings``, B at least 1.
        """
        longest = self.shape.max_position_embeddings
        if not isinstance(tokens, Tensor):
            raise InputError(f"tokens: found {type(tokens).__name__}, allowed: torch.Tensor")
        if tokens.dim() != 2 or tokens.shape[0] < 1 or not 1 <= tokens.shape[1] <= longest:
            raise InputError(
                f"tokens: found shape {tuple(tokens.shape)}, allowed: (batch, positions) "
                f"with 1 or more sequences of 1 to {longest} positions (max_position_embeddings)"
            )
        check_ids(tokens, self.shape.vocab_size, "tokens")

    def embed(self, tokens: Tensor) -> Tensor:
        """z_0, the state below the first block: tokens (B, T) -> (B, T, C).

        Raises InputError as ``check_tokens`` does.
        """
        self.check_tokens(tokens)
        return embedding(tokens.long(), self.get_parameter("model.embed_tokens.weight"))

    def block(self, layer: int, z: Tensor, rotary: Rotary) -> Tensor:
        """f_l(z), block ``layer`` with its ideal weights: (B, T, C) -> (B, T, C)."""
        return block_forward(
            z,
            self.block_gains(layer),
            rotary,
            self.shape.num_attention_heads,
            self.shape.rms_norm_eps,
            lambda array, x: linear(x, self.block_weight(layer, array)),
        )

    def readout(self, z: Tensor) -> Tensor:
        """Final norm and readout: the top state (B, T, C) -> logits (B, T, V)."""
        normed = rms_norm(z, self.get_parameter("model.norm.weight"), self.shape.rms_norm_eps)
        return linear(normed, self.get_parameter("lm_head.weight"))

    def forward(self, tokens: Tensor) -> Tensor:
        """Token ids (B, T) -> logits (B, T, V) of each position's next token."""
        z = self.embed(tokens)  # (B, T, C)
        rotary = self.rotary(tokens.shape[1], z.device)
        for layer in range(self.shape.num_hidden_layers):
            z = self.block(layer, z, rotary)
        return self.readout(z)

    def loss(self, tokens: Tensor, targets: Tensor) -> Tensor:
        """Mean cross-entropy per target token, in nats.

        ``tokens``, ``targets``: (B, T); ``targets`` are already shifted (transformers shifts its
        ``labels`` itself), -100 where a position has none. Raises InputError for bad tokens or
        targets, and where no position has a target.
        """
        count = count_targets(targets)
        if count == 0:
            raise InputError("targets: found only -100, allowed: 1 or more target tokens")
        return cross_entropy_sum(self(tokens), targets) / count
