"""Options that the verbs share, and settings from a TOML file and ``--set``.

Settings are flat: dotted key to value. A file's tables and a dotted ``--set`` give the same key,
and the command line wins over the file.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args, get_origin

import typer
from pydantic import BaseModel, ValidationError

from eptsim.base.errors import InputError, nearest

if TYPE_CHECKING:
    import torch

Seed = Annotated[
    int, typer.Option("--seed", min=0, help="The same seed gives the same chip and the same noise.")
]
Device = Annotated[
    str, typer.Option("--device", help="Where to compute: cpu, cuda, cuda:N, or auto.")
]
Out = Annotated[Path, typer.Option("--out", help="Folder to write to.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for machines.")]
Config = Annotated[Path | None, typer.Option("--config", help="TOML file with settings.")]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="One setting, such as card.transpose.offset=0.02; repeatable; null for none.",
    ),
]

Settings = dict[str, object]
Model = TypeVar("Model", bound=BaseModel)


def parse_value(text: str) -> object:
    """Return the value of a ``--set``: a TOML value, null, or else the text as it stands.

    A shell removes quotes, so a bare word is a string. ``null`` and ``none`` are None.
    """
    text = text.strip()
    if text.lower() in ("null", "none"):
        return None
    try:
        value: object = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text
    if not text or "\n" in text or (value is text and text[0] in "\"'[{"):
        raise InputError(
            f"--set: found the value {text!r}, allowed: a TOML value such as 3, 1e-3, true, "
            "word or [1, 2]."
        )
    return value


def parse_assignment(text: str) -> tuple[str, object]:
    """Return key and value of ``a.b=3``."""
    key, equals, value = text.partition("=")
    key = key.strip()
    if not equals or not all(key.split(".")):
        raise InputError(f"--set: found {text!r}, allowed: KEY=VALUE, such as chip.seed=3.")
    return key, parse_value(value)


def read_settings(config: Path | None, assignments: Sequence[str] | None = None) -> Settings:
    """Return the settings of a TOML file and of the ``--set`` options, which win.

    Raises
    ------
    InputError
        The file cannot be read, or an assignment cannot be parsed.
    """
    settings = dict(_flatten(_read_toml(config))) if config is not None else {}
    settings.update(parse_assignment(text) for text in assignments or ())
    for key in settings:
        inner = next((other for other in settings if other.startswith(f"{key}.")), None)
        if inner is not None:
            raise InputError(f"settings: found both {key!r} and {inner!r}; give one of them.")
    return settings


def check_keys(settings: Mapping[str, object], allowed: Iterable[str]) -> None:
    """Raise InputError for a key that is not allowed; ``"card.*"`` allows every key below."""
    names = tuple(allowed)
    groups = tuple(name[:-1] for name in names if name.endswith(".*"))
    for key in settings:
        if key not in names and not key.startswith(groups):
            raise InputError(
                f"setting {key!r}: no such setting, allowed: {', '.join(names)}."
                f"{nearest(key, names)}"
            )


def setting_names(model: type[BaseModel]) -> tuple[str, ...]:
    """Return the dotted names of the settings of a model, ``name.*`` for an open mapping."""
    names: list[str] = []
    for name, field in model.model_fields.items():
        inner, is_mapping = _field_kind(field.annotation)
        if inner is not None:
            names.extend(f"{name}.{below}" for below in setting_names(inner))
        else:
            names.append(f"{name}.*" if is_mapping else name)
    return tuple(names)


def build(model: type[Model], settings: Mapping[str, object]) -> Model:
    """Return the checked settings of one verb.

    Parameters
    ----------
    model
        A pydantic model. A field that is a model takes the keys below its name; a field that is a
        mapping takes whatever lies below its name, as dotted keys (``card.transpose.offset`` gives
        ``card = {"transpose.offset": ...}``, what ``Card.override`` takes).
    settings
        Dotted keys, from ``read_settings``. None for a field that takes no None but the word "none"
        is that word.

    Raises
    ------
    InputError
        A key is unknown or a value is not allowed.
    """
    check_keys(settings, setting_names(model))
    try:
        return model.model_validate(_nest(model, settings))
    except ValidationError as error:
        words = dict(settings)
        for found in error.errors():
            key = _key_of(found["loc"], settings)
            if key in words and words[key] is None:
                words[key] = "none"
    try:
        return model.model_validate(_nest(model, words))
    except ValidationError as error:
        raise InputError("; ".join(_describe(error, settings))) from error


def resolve_device(name: str) -> torch.device:
    """Return the device that ``--device`` names, ``auto`` being the GPU where there is one."""
    import torch

    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise InputError(
            f"--device: found {name!r}, allowed: cpu, cuda, cuda:N, auto.{nearest(name, DEVICES)}"
        ) from error
    if device.type not in ("cpu", "cuda"):
        raise InputError(f"--device: found {name!r}, allowed: cpu, cuda, cuda:N, auto.")
    count = torch.cuda.device_count()
    if device.type == "cuda" and (device.index or 0) >= count:
        there = f"{count} GPU{'' if count == 1 else 's'}"
        raise InputError(f"--device: found {name!r}, but torch sees {there} here; allowed: cpu.")
    return device


DEVICES = ("cpu", "cuda", "auto")


def _read_toml(path: Path) -> dict[str, object]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"--config {path}: cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise InputError(f"--config {path}: not valid TOML: {error}.") from error


def _flatten(table: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    for name, value in table.items():
        key = f"{prefix}{name}"
        if isinstance(value, dict):
            yield from _flatten(value, f"{key}.")
        else:
            yield key, value


def _field_kind(annotation: object) -> tuple[type[BaseModel] | None, bool]:
    """The model that a field holds, if it does, and whether it holds an open mapping."""
    options = [option for option in (annotation, *get_args(annotation)) if option is not None]
    for option in options:
        if isinstance(option, type) and issubclass(option, BaseModel):
            return option, False
    return None, any(get_origin(option) in (dict, Mapping) for option in options)


def _nest(model: type[BaseModel], settings: Mapping[str, object]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for key, value in settings.items():
        name, _, rest = key.partition(".")
        if rest:
            nested.setdefault(name, {})[rest] = value
        else:
            nested[name] = value
    for name, field in model.model_fields.items():
        inner, _ = _field_kind(field.annotation)
        if inner is not None and name in nested:
            nested[name] = _nest(inner, nested[name])
    return nested


def _key_of(location: tuple[int | str, ...], settings: Mapping[str, object]) -> str:
    """The longest given key that the place of a pydantic error begins with, else that place."""
    parts = [str(part) for part in location]
    for end in range(len(parts), 0, -1):
        key = ".".join(parts[:end])
        if key in settings:
            return key
    return ".".join(parts)


def _describe(error: ValidationError, settings: Mapping[str, object]) -> Iterator[str]:
    seen: set[str] = set()
    for found in error.errors():
        key = _key_of(found["loc"], settings)
        if key in seen:
            continue
        seen.add(key)
        what = f"found {settings[key]!r}, " if key in settings else ""
        yield f"setting {key!r}: {what}{found['msg'][:1].lower()}{found['msg'][1:]}"
