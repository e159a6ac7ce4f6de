"""config.json in every layout that transformers has written, and every refusal."""

import json
from pathlib import Path
from typing import Any

import pytest
from transformers import Olmo2Config

from eptsim.base.errors import CheckpointError
from eptsim.olmo2.config import config_text, read_config
from eptsim.olmo2.shape import Olmo2Shape

SHAPE = Olmo2Shape(
    vocab_size=11,
    hidden_size=24,
    intermediate_size=20,
    num_hidden_layers=2,
    num_attention_heads=3,
    rope_theta=1234.5,
    rms_norm_eps=1e-4,
    max_position_embeddings=77,
)
# Of allenai/OLMo-2-0425-1B, as written by transformers 4.47.
PUBLISHED = {
    "architectures": ["Olmo2ForCausalLM"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "eos_token_id": 100257,
    "hidden_act": "silu",
    "hidden_size": 2048,
    "initializer_range": 0.02,
    "intermediate_size": 8192,
    "max_position_embeddings": 4096,
    "model_type": "olmo2",
    "num_attention_heads": 16,
    "num_hidden_layers": 16,
    "num_key_value_heads": 16,
    "pad_token_id": 100277,
    "rms_norm_eps": 1e-06,
    "rope_scaling": None,
    "rope_theta": 500000,
    "tie_word_embeddings": False,
    "torch_dtype": "float32",
    "transformers_version": "4.47.1",
    "use_cache": True,
    "vocab_size": 100352,
}


def _read(folder: Path, config: object) -> Olmo2Shape:
    (folder / "config.json").write_text(json.dumps(config))
    return read_config(folder)


def _ours(**changes: Any) -> dict[str, Any]:
    config: dict[str, Any] = json.loads(config_text(SHAPE, "float32"))
    return config | changes


def test_round_trip(tmp_path: Path) -> None:
    assert _read(tmp_path, _ours()) == SHAPE


def test_transformers_reads_ours(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(config_text(SHAPE, "float64"))
    theirs = Olmo2Config.from_pretrained(tmp_path)
    assert theirs.rope_parameters == {"rope_theta": 1234.5, "rope_type": "default"}
    assert (theirs.vocab_size, theirs.hidden_size, theirs.intermediate_size) == (11, 24, 20)
    assert (theirs.num_hidden_layers, theirs.num_attention_heads) == (2, 3)
    assert (theirs.rms_norm_eps, theirs.max_position_embeddings) == (1e-4, 77)
    assert (theirs.pad_token_id, theirs.tie_word_embeddings) == (None, False)


def test_ours_reads_transformers(tmp_path: Path) -> None:
    theirs = Olmo2Config(
        vocab_size=11,
        hidden_size=24,
        intermediate_size=20,
        num_hidden_layers=2,
        num_attention_heads=3,
        rope_theta=1234.5,
        rms_norm_eps=1e-4,
        max_position_embeddings=77,
        eos_token_id=None,
    )
    theirs.save_pretrained(tmp_path)
    assert read_config(tmp_path) == SHAPE


def test_published_layout(tmp_path: Path) -> None:
    shape = _read(tmp_path, PUBLISHED)
    assert (shape.rope_theta, shape.rms_norm_eps, shape.intermediate_size) == (5e5, 1e-6, 8192)


@pytest.mark.parametrize(
    "rope",
    [
        {},
        {"rope_theta": 77.0},
        {"rope_theta": 77.0, "rope_scaling": {"rope_type": "default"}},
        {"rope_theta": 77.0, "rope_scaling": {"type": "default"}},
        {"rope_theta": 77.0, "rope_parameters": None},
        {"rope_theta": 77.0, "rope_parameters": {"rope_type": "default"}},
        {"rope_theta": 77.0, "rope_parameters": {"rope_type": "default", "rope_theta": 5.0}},
        {"rope_parameters": {"rope_type": "default", "rope_theta": 5.0}},
        {"rope_parameters": {"rope_theta": 5.0}},
    ],
)
def test_rotary_base_is_the_one_transformers_takes(tmp_path: Path, rope: dict[str, Any]) -> None:
    config = _ours() | {"vocab_size": 11}
    del config["rope_theta"], config["rope_parameters"]
    theirs = Olmo2Config.from_dict(json.loads(json.dumps(config | rope)))
    assert _read(tmp_path, config | rope).rope_theta == theirs.rope_parameters["rope_theta"]


def test_entries_with_a_meaning_when_absent(tmp_path: Path) -> None:
    config = _ours()
    for name in (
        "num_key_value_heads",
        "tie_word_embeddings",
        "attention_bias",
        "hidden_act",
        "rms_norm_eps",
        "max_position_embeddings",
    ):
        del config[name]
    shape = _read(tmp_path, config)
    assert (shape.rms_norm_eps, shape.max_position_embeddings) == (1e-5, 2048)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_type": "llama"}, "model_type: found 'llama', allowed: \"olmo2\""),
        ({"model_type": "olmo"}, "model_type: found 'olmo'"),
        ({"model_type": None}, "model_type: found None"),
        ({"num_key_value_heads": 1}, "num_key_value_heads: found 1.*grouped-query"),
        ({"tie_word_embeddings": True}, "tie_word_embeddings: found True.*untied"),
        ({"attention_bias": True}, "attention_bias: found True"),
        ({"hidden_act": "gelu"}, "hidden_act: found 'gelu', allowed: \"silu\""),
        ({"quantization_config": {"bits": 4}}, "quantization_config: found"),
        ({"rope_scaling": {"type": "linear", "factor": 2}}, r"rope_scaling\.type: found 'linear'"),
        ({"rope_scaling": {"rope_type": "yarn"}}, r"rope_scaling\.rope_type: found 'yarn'"),
        ({"rope_parameters": {"rope_type": "dynamic"}}, r"rope_parameters\.rope_type: found 'dyn"),
        ({"rope_parameters": {"partial_rotary_factor": 0.5}}, "partial_rotary_factor: found 0.5"),
        ({"rope_parameters": 3}, "rope_parameters: found 3, allowed: null or an object"),
        ({"rope_parameters": {"rope_theta": -1}}, "rope_theta: found -1"),
        ({"rope_parameters": {"rope_theta": "big"}}, "rope_theta: found 'big'"),
        ({"head_dim": 16}, "head_dim: found 16, allowed: 8"),
        ({"hidden_size": 25}, "hidden_size: found 25 with num_attention_heads 3"),
        ({"hidden_size": "24"}, "hidden_size: found '24'"),
        ({"vocab_size": 0}, "vocab_size: found 0"),
        ({"rms_norm_eps": None}, "rms_norm_eps: found None"),
        ({"num_hidden_layers": [2]}, r"num_hidden_layers: found \[2\]"),
    ],
)
def test_refusals(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(CheckpointError, match=message) as caught:
        _read(tmp_path, _ours(**changes))
    assert str(tmp_path / "config.json") in str(caught.value)


@pytest.mark.parametrize(
    "name", ["vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads"]
)
def test_missing_entries_are_named(tmp_path: Path, name: str) -> None:
    config = _ours(num_key_value_heads=None)
    del config[name]
    with pytest.raises(CheckpointError, match=f"missing {name}"):
        _read(tmp_path, config)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not valid JSON"),
        ("", "not valid JSON"),
        ("[1]", "found a list, allowed: a JSON object"),
        ("[" * 100_000, "not valid JSON"),
    ],
)
def test_bad_json(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(CheckpointError, match=message):
        read_config(tmp_path)


def test_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"config\.json: no such file"):
        read_config(tmp_path)
    (tmp_path / "config.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(CheckpointError, match="not valid JSON"):
        read_config(tmp_path)
    (tmp_path / "config.json").unlink()
    (tmp_path / "config.json").mkdir()
    with pytest.raises(CheckpointError, match="cannot be read"):
        read_config(tmp_path)
