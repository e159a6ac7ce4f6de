"""Checkpoints: theirs opened by ours, ours by theirs, round trips, every refusal."""

import json
import math
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import Olmo2ForCausalLM

from eptsim.base.errors import CheckpointError
from eptsim.olmo2 import checkpoint
from eptsim.olmo2.model import Olmo2
from eptsim.olmo2.shape import Olmo2Shape

Make = Callable[..., Olmo2]
Oracle = Callable[[Olmo2], Olmo2ForCausalLM]

SHAPE = Olmo2Shape(
    vocab_size=50, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, rope_theta=2e4
)
TOKENS = torch.arange(24).view(2, 12) * 2
QUERY = "model.layers.1.self_attn.q_proj.weight"


def _equal(ours: Olmo2, theirs: Olmo2) -> bool:
    pairs = zip(ours.named_parameters(), theirs.named_parameters(), strict=True)
    return ours.shape == theirs.shape and all(
        a == b and x.dtype == y.dtype and torch.equal(x, y) for (a, x), (b, y) in pairs
    )


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def _edit(folder: Path, change: Callable[[dict[str, Tensor]], Any]) -> None:
    path = folder / "model.safetensors"
    tensors = load_file(path)
    change(tensors)
    save_file(tensors, path, {"format": "pt"})


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    Olmo2(SHAPE, seed=5).save_pretrained(tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("scale", "gain"), [(1.0, 1.0), (10.0, 4.0)])
def test_theirs_opens_ours(
    make_model: Make, tmp_path: Path, dtype: torch.dtype, scale: float, gain: float
) -> None:
    model = make_model(SHAPE, dtype, scale, gain)
    model.save_pretrained(tmp_path)
    theirs, report = Olmo2ForCausalLM.from_pretrained(
        tmp_path, dtype=dtype, output_loading_info=True
    )
    assert not any(report.values())
    assert theirs.dtype == dtype
    reference = dict(theirs.named_parameters())
    assert all(torch.equal(p, reference[name]) for name, p in model.named_parameters())
    if dtype == torch.float32:
        assert (theirs(TOKENS).logits - model(TOKENS)).abs().max() < 1e-4


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shard", ["5GB", "20KB"])
def test_ours_opens_theirs(
    make_model: Make, make_oracle: Oracle, tmp_path: Path, dtype: torch.dtype, shard: str
) -> None:
    model = make_model(SHAPE, dtype, 10.0, 2.0)
    make_oracle(model).save_pretrained(tmp_path, max_shard_size=shard)
    assert (tmp_path / "model.safetensors.index.json").exists() == (shard == "20KB")
    opened = Olmo2.from_pretrained(tmp_path)
    assert _equal(opened, model)
    assert torch.equal(opened(TOKENS), model(TOKENS))


def test_half_precision_is_widened_exactly(
    make_model: Make, make_oracle: Oracle, tmp_path: Path
) -> None:
    model = make_model(SHAPE)
    make_oracle(model).to(torch.bfloat16).save_pretrained(tmp_path)
    for dtype, expected in ((None, torch.float32), (torch.float64, torch.float64)):
        opened = Olmo2.from_pretrained(tmp_path, dtype)
        assert opened.dtype == expected
        for name, parameter in model.named_parameters():
            assert torch.equal(opened.get_parameter(name), parameter.bfloat16().to(expected))


def test_dtype_on_request(saved: Path) -> None:
    assert Olmo2.from_pretrained(saved).dtype == torch.float32
    wide = Olmo2.from_pretrained(saved, torch.float64)
    assert _equal(wide, Olmo2(SHAPE, seed=5, dtype=torch.float64))
    with pytest.raises(CheckpointError, match=r"dtype: found torch\.bfloat16"):
        Olmo2.from_pretrained(saved, torch.bfloat16)


@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_round_trip(data: st.DataObject) -> None:
    heads = data.draw(st.integers(1, 3))
    shape = Olmo2Shape(
        vocab_size=data.draw(st.integers(1, 9)),
        hidden_size=2 * heads * data.draw(st.integers(1, 3)),
        intermediate_size=data.draw(st.none() | st.integers(1, 9)),
        num_hidden_layers=data.draw(st.integers(1, 3)),
        num_attention_heads=heads,
        rope_theta=data.draw(st.floats(1e-3, 1e9)),
        rms_norm_eps=data.draw(st.floats(1e-12, 1.0)),
        max_position_embeddings=data.draw(st.integers(1, 10_000)),
    )
    dtype = data.draw(st.sampled_from([torch.float32, torch.float64]))
    model = Olmo2(shape, seed=data.draw(st.integers(0, 2**63 - 1)), dtype=dtype)
    value = data.draw(st.floats(allow_nan=False, allow_infinity=False, width=32))
    with torch.no_grad():
        model.get_parameter("lm_head.weight")[0, 0] = value
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        assert _equal(Olmo2.from_pretrained(folder), model)


def test_opening_and_saving_leave_the_global_generator_alone(saved: Path) -> None:
    before = torch.random.get_rng_state()
    Olmo2.from_pretrained(saved).save_pretrained(saved)
    assert torch.equal(torch.random.get_rng_state(), before)


def test_an_opened_model_trains_and_does_not_depend_on_its_file(saved: Path) -> None:
    model = Olmo2.from_pretrained(saved)
    (saved / "model.safetensors").write_bytes(b"")
    model.loss(TOKENS, TOKENS).backward()
    assert all(p.requires_grad and p.grad is not None for p in model.parameters())
    assert _equal(model, Olmo2(SHAPE, seed=5))


def test_files_are_written_whole_or_not_at_all(
    saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _names(saved) == ["config.json", "model.safetensors"]

    def fail(tensors: dict[str, Tensor], path: Path, metadata: dict[str, str]) -> None:
        path.write_bytes(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(checkpoint, "save_file", fail)
    with pytest.raises(CheckpointError, match=r"cannot be written: disk full"):
        Olmo2(SHAPE, seed=6).save_pretrained(saved)
    assert _names(saved) == ["config.json", "model.safetensors"]
    assert _equal(Olmo2.from_pretrained(saved), Olmo2(SHAPE, seed=5))
    other = Olmo2Shape(
        vocab_size=50, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, rope_theta=9.0
    )
    with pytest.raises(CheckpointError, match="disk full"):
        Olmo2(other).save_pretrained(saved)
    with pytest.raises(CheckpointError, match="no such file"):
        Olmo2.from_pretrained(saved)


def test_overwriting(saved: Path) -> None:
    other = Olmo2Shape(vocab_size=9, hidden_size=8, num_hidden_layers=1, num_attention_heads=2)
    Olmo2(other, seed=1).save_pretrained(saved)
    assert _equal(Olmo2.from_pretrained(saved), Olmo2(other, seed=1))


def test_files_have_the_usual_permissions(saved: Path, tmp_path: Path) -> None:
    (tmp_path / "plain").write_text("")
    usual = (tmp_path / "plain").stat().st_mode
    assert {path.stat().st_mode for path in saved.iterdir()} == {usual}


def _set_entry(value: float) -> Callable[[dict[str, Tensor]], None]:
    def change(tensors: dict[str, Tensor]) -> None:
        tensors[QUERY][3, 7] = value

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.pop(QUERY), f"missing tensor {QUERY}"),
        (lambda t: t.update(extra=torch.ones(2)), "found tensor extra, allowed: only"),
        (
            lambda t: t.update({QUERY.replace("q_proj", "q_porj"): t.pop(QUERY)}),
            "Did you mean 'model.layers.1.self_attn.q_porj.weight'",
        ),
        (
            lambda t: t.update({"model.layers.2.mlp.up_proj.weight": torch.ones(2)}),
            r"model\.layers\.2\.mlp\.up_proj\.weight",
        ),
        (
            lambda t: t.update({QUERY: torch.ones(32, 31)}),
            rf"{QUERY}: found shape \(32, 31\), allowed: \(32, 32\)",
        ),
        (
            lambda t: t.update({QUERY: torch.ones(32, 32, dtype=torch.int8)}),
            rf"{QUERY}: found dtype torch\.int8",
        ),
        (_set_entry(math.nan), rf"{QUERY}: found nan at \(3, 7\) \(1 such"),
        (_set_entry(-math.inf), rf"{QUERY}: found -inf at \(3, 7\)"),
        (lambda t: t.clear(), "missing tensors model.embed_tokens.weight.* and 22 more"),
    ],
)
def test_bad_tensors_are_named(
    saved: Path, change: Callable[[dict[str, Tensor]], Any], message: str
) -> None:
    _edit(saved, change)
    with pytest.raises(CheckpointError, match=message) as caught:
        Olmo2.from_pretrained(saved)
    assert str(saved) in str(caught.value)


def test_a_value_too_large_for_the_dtype_asked_for(tmp_path: Path) -> None:
    model = Olmo2(SHAPE, dtype=torch.float64)
    with torch.no_grad():
        model.get_parameter(QUERY)[0, 1] = 1e300
    model.save_pretrained(tmp_path)
    assert Olmo2.from_pretrained(tmp_path).get_parameter(QUERY)[0, 1] == 1e300
    with pytest.raises(CheckpointError, match=r"found inf at \(0, 1\)"):
        Olmo2.from_pretrained(tmp_path, torch.float32)


@pytest.mark.parametrize("keep", [0, 4, 8, 100, -1])
def test_truncated_weights(saved: Path, keep: int) -> None:
    path = saved / "model.safetensors"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(CheckpointError, match=r"not a readable safetensors file"):
        Olmo2.from_pretrained(saved)


def test_missing_files(saved: Path, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"nowhere: found no such folder"):
        Olmo2.from_pretrained(tmp_path / "nowhere")
    with pytest.raises(CheckpointError, match=r"found no such folder"):
        Olmo2.from_pretrained(saved / "config.json")
    (saved / "model.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"found neither model\.safetensors nor"):
        Olmo2.from_pretrained(saved)


@pytest.fixture
def sharded(saved: Path) -> Path:
    tensors = load_file(saved / "model.safetensors")
    (saved / "model.safetensors").unlink()
    names = list(tensors)
    parts = {"a.safetensors": names[:9], "b.safetensors": names[9:]}
    for file, part in parts.items():
        save_file({name: tensors[name] for name in part}, saved / file, {"format": "pt"})
    weight_map = {name: file for file, part in parts.items() for name in part}
    index = {"metadata": {"total_size": 1}, "weight_map": weight_map}
    (saved / "model.safetensors.index.json").write_text(json.dumps(index))
    return saved


def test_sharded(sharded: Path) -> None:
    assert _equal(Olmo2.from_pretrained(sharded), Olmo2(SHAPE, seed=5))


def test_bad_shards(sharded: Path) -> None:
    (sharded / "c.safetensors").write_bytes((sharded / "b.safetensors").read_bytes())
    index = sharded / "model.safetensors.index.json"
    good = json.loads(index.read_text())
    for weight_map, message in (
        (None, "weight_map: found None"),
        ({}, "weight_map: found {}"),
        ({QUERY: "../a.safetensors"}, "allowed: a file name in the folder"),
        ({QUERY: 3}, "found 3, allowed: a file name"),
        ({QUERY: "missing.safetensors"}, r"missing\.safetensors: no such"),
        (good["weight_map"] | {QUERY: "c.safetensors"}, rf"b\.safetensors: found tensor {QUERY}"),
        (good["weight_map"] | {"more": "a.safetensors"}, "missing tensor more"),
    ):
        index.write_text(json.dumps({"weight_map": weight_map}))
        with pytest.raises(CheckpointError, match=message):
            Olmo2.from_pretrained(sharded)
    index.write_text("{")
    with pytest.raises(CheckpointError, match=r"index\.json: not valid JSON"):
        Olmo2.from_pretrained(sharded)


def test_saving_refuses_what_could_not_be_opened(tmp_path: Path) -> None:
    model = Olmo2(SHAPE)
    with torch.no_grad():
        model.get_parameter(QUERY)[1, 2] = math.nan
    with pytest.raises(CheckpointError, match=rf"{QUERY}: found nan at \(1, 2\)"):
        model.save_pretrained(tmp_path / "new")
    assert not (tmp_path / "new").exists()
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match=r"file: cannot be written"):
        Olmo2(SHAPE).save_pretrained(tmp_path / "file")
    with pytest.raises(CheckpointError, match=r"found dtypes torch\.bfloat16"):
        Olmo2(SHAPE).to(torch.bfloat16).save_pretrained(tmp_path / "new")


def test_writing_checks_names_and_shapes(tmp_path: Path) -> None:
    tensors = {name: torch.zeros(size) for name, size in SHAPE.parameter_shapes().items()}
    missing = {name: value for name, value in tensors.items() if name != QUERY}
    with pytest.raises(CheckpointError, match=f"missing tensor {QUERY}"):
        checkpoint.write_checkpoint(tmp_path, SHAPE, missing)
    with pytest.raises(CheckpointError, match=rf"{QUERY}: found shape \(2,\)"):
        checkpoint.write_checkpoint(tmp_path, SHAPE, tensors | {QUERY: torch.zeros(2)})
