"""Checkpoint folders in Hugging Face's safetensors layout."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from eptsim.base.errors import CheckpointError, nearest
from eptsim.olmo2.config import CONFIG_FILE, config_text, read_config, read_json
from eptsim.olmo2.shape import Olmo2Shape

WEIGHTS_FILE = "model.safetensors"
INDEX_FILE = "model.safetensors.index.json"
DTYPES = (torch.float32, torch.float64)
"""The dtypes that a model computes in."""

_STORED = (torch.float64, torch.float32, torch.bfloat16, torch.float16)


def read_checkpoint(
    folder: str | os.PathLike[str], dtype: torch.dtype | None = None
) -> tuple[Olmo2Shape, dict[str, Tensor]]:
    """Read an OLMo2 checkpoint: ``config.json`` and ``model.safetensors``, whole or sharded.

    Parameters
    ----------
    folder : path
    dtype : torch.float32, torch.float64 or None
        Of the tensors returned. None keeps what is stored, with half precision widened (exactly)
        to float32; where float64 and others are mixed, all become float64.

    Returns
    -------
    The shape, and every parameter under its Hugging Face name.

    Raises
    ------
    CheckpointError
        A missing or unreadable file; a configuration that is not an OLMo2 decoder as in DESIGN.md
        section 2 (other ``model_type``, grouped-query heads, tied readout, biases, another
        activation, scaled RoPE); a missing, extra or misshapen tensor; a weight that is not finite.
    """
    root = Path(folder)
    if not root.is_dir():
        raise CheckpointError(f"{root}: found no such folder, allowed: a checkpoint folder")
    if dtype is not None and dtype not in DTYPES:
        allowed = ", ".join(map(str, DTYPES))
        raise CheckpointError(f"{root}: dtype: found {dtype!r}, allowed: {allowed} or None")
    shape = read_config(root)
    sizes = shape.parameter_shapes()
    places = _places(root)
    _check_names(root, list(places), list(sizes), "its configuration")
    tensors: dict[str, Tensor] = {}
    for path in dict.fromkeys(places.values()):
        names = [name for name, place in places.items() if place == path]
        tensors.update(_read_tensors(path, {name: sizes[name] for name in names}))
    if dtype is None:
        wide = any(value.dtype == torch.float64 for value in tensors.values())
        dtype = torch.float64 if wide else torch.float32
    # Copies: what safetensors returns may still be mapped onto the file.
    converted = {name: tensors[name].to(dtype, copy=True) for name in sizes}
    _check_finite(root, converted)
    return shape, converted


def _places(root: Path) -> dict[str, Path]:
    """Each stored tensor's name and the file that holds it."""
    whole, index = root / WEIGHTS_FILE, root / INDEX_FILE
    if whole.exists():
        return dict.fromkeys(_stored_names(whole), whole)
    if not index.exists():
        raise CheckpointError(
            f"{root}: found neither {WEIGHTS_FILE} nor {INDEX_FILE}, allowed: one of them "
            "(weights in other formats are not read)"
        )
    weight_map = read_json(index).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise CheckpointError(f"{index}: weight_map: found {weight_map!r}, allowed: an object")
    for name, shard in weight_map.items():
        if not isinstance(shard, str) or Path(shard).name != shard:
            raise CheckpointError(
                f"{index}: weight_map: {name}: found {shard!r}, allowed: a file name in the folder"
            )
    places = {name: root / shard for name, shard in weight_map.items()}
    for path in dict.fromkeys(places.values()):
        listed = [name for name, place in places.items() if place == path]
        _check_names(path, _stored_names(path), listed, INDEX_FILE)
    return places


def _stored_names(path: Path) -> list[str]:
    with _reading(path), safe_open(path, framework="pt") as file:
        return list(file.keys())


def _read_tensors(path: Path, sizes: Mapping[str, tuple[int, ...]]) -> dict[str, Tensor]:
    """The named tensors of one file, as stored; shapes and dtypes checked."""
    found: dict[str, Tensor] = {}
    with _reading(path), safe_open(path, framework="pt") as file:
        for name in sizes:
            found[name] = file.get_tensor(name)
    for name, value in found.items():
        if tuple(value.shape) != sizes[name]:
            raise CheckpointError(
                f"{path}: {name}: found shape {tuple(value.shape)}, allowed: {sizes[name]}"
            )
        if value.dtype not in _STORED:
            allowed = ", ".join(map(str, _STORED))
            raise CheckpointError(f"{path}: {name}: found dtype {value.dtype}, allowed: {allowed}")
    return found


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turn every failure to read a safetensors file into a CheckpointError."""
    try:
        yield
    except FileNotFoundError:
        raise CheckpointError(f"{path}: no such file") from None
    except (SafetensorError, OSError) as error:
        raise CheckpointError(
            f"{path}: not a readable safetensors file (truncated?): {error}"
        ) from error


def _check_names(where: Path, found: list[str], wanted: list[str], source: str) -> None:
    """Raise CheckpointError unless ``found`` are the names that ``source`` asks for."""
    missing = [name for name in wanted if name not in set(found)]
    extra = [name for name in found if name not in set(wanted)]
    if missing:
        hint = nearest(missing[0], extra)
        raise CheckpointError(f"{where}: missing {_some(missing)}, of {source}.{hint}")
    if extra:
        raise CheckpointError(
            f"{where}: found {_some(extra)}, allowed: only those of {source}."
            f"{nearest(extra[0], wanted)}"
        )


def _some(names: list[str]) -> str:
    kind = "tensor" if len(names) == 1 else "tensors"
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"{kind} {', '.join(names[:3])}{more}"


def _check_finite(where: Path, tensors: Mapping[str, Tensor]) -> None:
    for name, value in tensors.items():
        bad = ~torch.isfinite(value)
        if bool(bad.any()):
            first = tuple(int(i) for i in bad.nonzero()[0])
            raise CheckpointError(
                f"{where}: {name}: found {float(value[first])} at {first} "
                f"({int(bad.sum())} such entries), allowed: finite numbers"
            )


def write_checkpoint(
    folder: str | os.PathLike[str], shape: Olmo2Shape, tensors: Mapping[str, Tensor]
) -> None:
    """Write ``config.json`` and ``model.safetensors`` into ``folder``, made where missing.

    Each file is written under a temporary name, then renamed. Over an existing checkpoint of
    another configuration, that configuration goes first, so that an interruption leaves a folder
    which is refused, never old settings with new weights.

    Raises
    ------
    CheckpointError
        A missing, extra, misshapen or non-finite tensor, mixed dtypes, or a folder that cannot be
        written.
    """
    root = Path(folder)
    sizes = shape.parameter_shapes()
    _check_names(root, list(tensors), list(sizes), "the shape")
    for name, size in sizes.items():
        if tuple(tensors[name].shape) != size:
            found = tuple(tensors[name].shape)
            raise CheckpointError(f"{root}: {name}: found shape {found}, allowed: {size}")
    dtypes = {value.dtype for value in tensors.values()}
    if len(dtypes) != 1 or not dtypes <= set(DTYPES):
        found_dtypes = ", ".join(sorted(map(str, dtypes)))
        allowed = " or ".join(map(str, DTYPES))
        raise CheckpointError(f"{root}: found dtypes {found_dtypes}, allowed: {allowed}, all alike")
    _check_finite(root, tensors)
    text = config_text(shape, str(dtypes.pop()).removeprefix("torch."))
    plain = {name: tensors[name].detach().cpu().contiguous() for name in sizes}
    try:
        root.mkdir(parents=True, exist_ok=True)
        config = root / CONFIG_FILE
        if config.exists() and config.read_text(encoding="utf-8", errors="replace") != text:
            config.unlink()
        # transformers asks for the "format" entry.
        _replace(root / WEIGHTS_FILE, lambda path: save_file(plain, path, {"format": "pt"}))
        _replace(config, lambda path: _write_text(path, text))
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{root}: cannot be written: {error}") from error


def _write_text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


def _replace(path: Path, write: Callable[[Path], None]) -> None:
    """Write a file through a temporary name in the same folder; leave none behind on failure.

    The file gets the permissions of any new file: safetensors alone would make it private.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.touch()
        mode = temporary.stat().st_mode
        write(temporary)
        temporary.chmod(mode)
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
