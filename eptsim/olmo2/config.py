"""Hugging Face's ``config.json`` of an OLMo2 model, read and written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from eptsim.base.errors import CheckpointError, InputError
from eptsim.olmo2.shape import Olmo2Shape

CONFIG_FILE = "config.json"

_REQUIRED = (
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
)
# What transformers' Olmo2Config assumes where a configuration is silent.
_ASSUMED = {"rms_norm_eps": 1e-5, "max_position_embeddings": 2048}
_ASSUMED_THETA = 10000.0


def read_config(folder: Path) -> Olmo2Shape:
    """Read ``folder/config.json``; raise CheckpointError where it is no supported OLMo2."""
    path = folder / CONFIG_FILE
    config = read_json(path)
    _refuse_variants(config, path)
    missing = [name for name in _REQUIRED if name not in config]
    if missing:
        raise CheckpointError(f"{path}: missing {', '.join(missing)}")
    values = {name: config.get(name, default) for name, default in _ASSUMED.items()}
    try:
        shape = Olmo2Shape(
            **{name: config[name] for name in _REQUIRED},
            **values,
            rope_theta=_rope_theta(config, path),
        )
    except InputError as error:
        raise CheckpointError(f"{path}: {error}") from error
    head_dim = config.get("head_dim")
    if head_dim not in (None, shape.head_dim):
        raise CheckpointError(
            f"{path}: head_dim: found {head_dim!r}, "
            f"allowed: {shape.head_dim}, hidden_size / num_attention_heads"
        )
    return shape


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object from ``path``; raise CheckpointError where that fails."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise CheckpointError(f"{path}: no such file; a checkpoint folder holds one") from None
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {error}") from error
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path}: not valid JSON: {error}") from error
    if not isinstance(found, dict):
        raise CheckpointError(f"{path}: found a {type(found).__name__}, allowed: a JSON object")
    return found


def _refuse_variants(config: dict[str, Any], path: Path) -> None:
    """Raise CheckpointError for an architecture other than the one of DESIGN.md, section 2."""
    heads = config.get("num_attention_heads")
    groups = config.get("num_key_value_heads")
    rules = (
        ("model_type", config.get("model_type"), ("olmo2",), "the OLMo2 architecture"),
        ("num_key_value_heads", groups, (None, heads), "no grouped-query heads"),
        ("tie_word_embeddings", config.get("tie_word_embeddings"), (None, False), "untied readout"),
        ("attention_bias", config.get("attention_bias"), (None, False), "no biases"),
        ("hidden_act", config.get("hidden_act", "silu"), ("silu",), "the SiLU gate"),
        ("quantization_config", config.get("quantization_config"), (None,), "plain weights"),
    )
    for name, found, allowed, why in rules:
        if found not in allowed:
            names = " or ".join(json.dumps(value) for value in allowed)
            raise CheckpointError(f"{path}: {name}: found {found!r}, allowed: {names} ({why})")


def _rope_theta(config: dict[str, Any], path: Path) -> Any:
    """The rotary base, from transformers 5's ``rope_parameters`` or from ``rope_theta``.

    Precedence as in transformers: ``rope_scaling`` over ``rope_parameters``, a base inside the one
    that counts over the top-level one.
    """
    for section in ("rope_parameters", "rope_scaling"):
        rope = config.get(section)
        if rope is None:
            continue
        if not isinstance(rope, dict):
            raise CheckpointError(f"{path}: {section}: found {rope!r}, allowed: null or an object")
        for key in ("rope_type", "type"):
            if rope.get(key, "default") != "default":
                raise CheckpointError(
                    f"{path}: {section}.{key}: found {rope[key]!r}, allowed: 'default' (plain RoPE)"
                )
        if rope.get("partial_rotary_factor", 1) != 1:
            raise CheckpointError(
                f"{path}: {section}.partial_rotary_factor: "
                f"found {rope['partial_rotary_factor']!r}, allowed: 1 (the whole head rotates)"
            )
    rope = config.get("rope_scaling") or config.get("rope_parameters") or {}
    return rope.get("rope_theta", config.get("rope_theta", _ASSUMED_THETA))


def config_text(shape: Olmo2Shape, dtype: str) -> str:
    """``config.json`` for a model of ``shape`` stored in ``dtype`` ("float32" or "float64").

    Older transformers read ``rope_theta`` and ``torch_dtype``, newer ones ``rope_parameters`` and
    ``dtype``; the file carries both. No token has a special role here, so the special tokens are
    null: transformers would otherwise assume a padding token and freeze its embedding.
    """
    config: dict[str, object] = {
        "architectures": ["Olmo2ForCausalLM"],
        "attention_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": None,
        "dtype": dtype,
        "eos_token_id": None,
        "hidden_act": "silu",
        "hidden_size": shape.hidden_size,
        "initializer_range": 0.02,
        "intermediate_size": shape.intermediate_size,
        "max_position_embeddings": shape.max_position_embeddings,
        "model_type": "olmo2",
        "num_attention_heads": shape.num_attention_heads,
        "num_hidden_layers": shape.num_hidden_layers,
        "num_key_value_heads": shape.num_attention_heads,
        "pad_token_id": None,
        "rms_norm_eps": shape.rms_norm_eps,
        "rope_parameters": {"rope_theta": shape.rope_theta, "rope_type": "default"},
        "rope_theta": shape.rope_theta,
        "tie_word_embeddings": False,
        "torch_dtype": dtype,
        "use_cache": True,
        "vocab_size": shape.vocab_size,
    }
    return json.dumps(config, indent=2) + "\n"
