"""Find, read and validate device cards: the shipped ones by name, any other by path."""

from __future__ import annotations

import importlib.resources
import math
import tomllib
from collections.abc import Callable, Iterator, Mapping
from importlib.resources.abc import Traversable
from pathlib import Path

from eptsim.base.errors import CardError, nearest
from eptsim.base.units import to_base, units_of
from eptsim.cards.bibliography import Source, parse_bibliography
from eptsim.cards.card import Card, Kind, Provenance, make_card
from eptsim.cards.check import IDEAL, check_value, find_entry, make_table, show
from eptsim.cards.schema import SCHEMA, Entry
from eptsim.cards.spec import Value

BIBLIOGRAPHY = "sources.bib"
HEADER = ("name", "title", "description", "technology")
FIELDS = ("value", "unit", "kind", "source", "where", "why")
CHOICE_FIELDS = ("value", "kind", "source", "where", "why")
TABLE_FIELDS = ("x", "x_unit", "value", "unit", "file", "kind", "source", "where", "why")
KINDS: dict[str, Kind] = {
    "measured": "measured",
    "fitted": "fitted",
    "assumed": "assumed",
    "override": "override",
    "default": "default",
}
WRITTEN_KINDS = ("measured", "fitted", "assumed")
"""The kinds that an author writes; ``override`` and ``default`` come from ``Card.text``."""


def list_cards() -> tuple[str, ...]:
    """Return the names of the shipped cards, sorted."""
    names = (item.name for item in _devices().iterdir())
    return tuple(sorted(name.removesuffix(".toml") for name in names if name.endswith(".toml")))


def load_card(name_or_path: str | Path) -> Card:
    """Return a device card, checked as a whole.

    Parameters
    ----------
    name_or_path
        The name of a shipped card (see ``list_cards``) or the path of a ``.toml`` file. A card
        may cite the shipped ``sources.bib`` and a ``sources.bib`` in its own folder.

    Raises
    ------
    CardError
        No such card, or it cannot be used; the message names file, key, what was found and what
        is allowed.
    """
    if isinstance(name_or_path, Path):
        return _load_path(name_or_path)
    if not isinstance(name_or_path, str):
        raise CardError(
            f"load_card: found {type(name_or_path).__name__}, allowed: the name of a card or a "
            "path (str or Path)."
        )
    names = list_cards()
    if name_or_path in names:
        return _load_shipped(name_or_path)
    if name_or_path.endswith(".toml") or "/" in name_or_path or "\\" in name_or_path:
        return _load_path(Path(name_or_path))
    raise CardError(
        f"load_card: found {name_or_path!r}, allowed: {', '.join(names)}, or the path of a "
        f".toml file.{nearest(name_or_path, names)}"
    )


def shipped_sources() -> dict[str, Source]:
    """Return the bibliography of the shipped cards, by key."""
    path = _devices() / BIBLIOGRAPHY
    return parse_bibliography(_text(path.read_bytes, str(path)), str(path))


def parse_card(text: str, sources: Mapping[str, Source], origin: str) -> Card:
    """Return the card that a TOML text describes.

    Parameters
    ----------
    text
        The content of a card file.
    sources
        What its entries may cite.
    origin
        The file it came from, for error messages.
    """
    try:
        document: dict[str, object] = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        last = f"at line {len(text.splitlines())}, the end of the file"
        problem = str(error).replace("at end of document", last)
        raise CardError(f"{origin}: not valid TOML: {problem}.") from error
    if not document:
        raise CardError(f"{origin}: found an empty file, allowed: a card with a [card] table.")
    header = _header(document.pop("card", None), origin)
    values: dict[str, Value] = {key: entry.default for key, entry in SCHEMA.items()}
    origins: dict[str, Provenance] = {}
    for key, raw in _leaves(document, "", origin):
        entry = find_entry(key, origin)
        values[key], origins[key] = _entry(entry, raw, sources, origin)
    return make_card(header, values, origins, origin)


def _devices() -> Traversable:
    """The folder of shipped cards: package data when installed, beside the package else."""
    try:
        folder = importlib.resources.files("eptsim.devices")
        if (folder / BIBLIOGRAPHY).is_file():
            return folder
    except ModuleNotFoundError:
        pass
    checkout = Path(__file__).resolve().parents[2] / "devices"
    if (checkout / BIBLIOGRAPHY).is_file():
        return checkout
    raise CardError(
        f"device cards: found neither the package data eptsim.devices nor {checkout}; "
        "reinstall eptsim."
    )


def _load_shipped(name: str) -> Card:
    path = _devices() / f"{name}.toml"
    return parse_card(_text(path.read_bytes, str(path)), shipped_sources(), str(path))


def _load_path(path: Path) -> Card:
    text = _text(path.read_bytes, str(path))
    sources = shipped_sources()
    beside = path.parent / BIBLIOGRAPHY
    if beside.is_file():
        sources |= parse_bibliography(_text(beside.read_bytes, str(beside)), str(beside))
    return parse_card(text, sources, str(path))


def _text(read: Callable[[], bytes], origin: str) -> str:
    try:
        return read().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise CardError(
            f"{origin}: found bytes that are no text (byte {error.start}), allowed: UTF-8."
        ) from error
    except FileNotFoundError as error:
        names, stem = list_cards(), Path(origin).stem
        raise CardError(
            f"{origin}: no such file, allowed: the path of a .toml file, or the name of a card: "
            f"{', '.join(names)}.{nearest(stem, names)}"
        ) from error
    except (OSError, ValueError) as error:
        raise CardError(f"{origin}: cannot be read: {error}.") from error


def _header(raw: object, origin: str) -> tuple[str, str, str, str]:
    if not isinstance(raw, dict):
        found = "nothing" if raw is None else show(raw)
        raise CardError(
            f"{origin}: card: found {found}, allowed: a table [card] with {', '.join(HEADER)}."
        )
    for key in raw:
        if key not in HEADER:
            raise CardError(
                f"{origin}: card.{key}: no such key, allowed: {', '.join(HEADER)}."
                f"{nearest(key, HEADER)}"
            )
    texts = []
    for key in HEADER:
        value = raw.get(key)
        if not isinstance(value, str) or not value.strip():
            found = "nothing" if value is None else show(value)
            raise CardError(f"{origin}: card.{key}: found {found}, allowed: a text.")
        texts.append(value)
    return texts[0], texts[1], texts[2], texts[3]


def _leaves(table: Mapping[str, object], prefix: str, origin: str) -> Iterator[tuple[str, object]]:
    """Yield the dotted key and raw content of every entry; refuse what is neither."""
    for name, raw in table.items():
        key = f"{prefix}{name}"
        if "." in name:
            raise CardError(
                f"{origin}: {key}: found a quoted key with a dot, allowed: plain keys, in the "
                "table of their section."
            )
        if not any(known.startswith(f"{key}.") for known in SCHEMA):
            yield key, raw
        elif isinstance(raw, dict):
            yield from _leaves(raw, f"{key}.", origin)
        else:
            raise CardError(f"{origin}: {key}: found {show(raw)}, allowed: a table [{key}].")


def _entry(
    entry: Entry, raw: object, sources: Mapping[str, Source], origin: str
) -> tuple[Value, Provenance]:
    fields = CHOICE_FIELDS if entry.choices else TABLE_FIELDS if entry.table else FIELDS
    if not isinstance(raw, dict):
        form = ", ".join(f"{name} = ..." for name in fields)
        raise CardError(f"{origin}: {entry.key}: found {show(raw)}, allowed: a table {{ {form} }}.")
    for name in raw:
        if name not in fields:
            raise CardError(
                f"{origin}: {entry.key}.{name}: no such key, allowed: {', '.join(fields)}."
                f"{nearest(name, fields)}"
            )
    provenance = _provenance(entry, raw, sources, origin)
    value = _table(entry, raw, origin) if entry.table else _value(entry, raw, origin)
    if provenance.kind == "default" and value != entry.default:
        raise CardError(
            f"{origin}: {entry.key}.kind: found 'default' with the value {value!r}, allowed: "
            f"{', '.join(WRITTEN_KINDS)}; the default is {entry.default!r}."
        )
    return value, provenance


def _value(entry: Entry, raw: Mapping[str, object], origin: str) -> Value:
    if "value" not in raw:
        raise CardError(f"{origin}: {entry.key}.value: found nothing, allowed: {entry.allowed}.")
    if entry.choices:
        return check_value(entry, raw["value"], origin)
    unit = _unit(raw.get("unit"), entry.spec.dimension, f"{origin}: {entry.key}.unit")
    value = raw["value"]
    if value == IDEAL or isinstance(value, bool) or not isinstance(value, float | int):
        return check_value(entry, value, origin)
    try:
        return check_value(entry, to_base(value, unit, entry.spec.dimension), origin)
    except OverflowError as error:
        raise CardError(
            f"{origin}: {entry.key}: found a number too large, allowed: {entry.allowed}."
        ) from error


def _unit(unit: object, dimension: str, where: str) -> str:
    allowed = units_of(dimension)
    if not isinstance(unit, str):
        found = "nothing" if unit is None else show(unit)
        raise CardError(f"{where}: found {found}, allowed: {', '.join(allowed)}.")
    if unit not in allowed:
        raise CardError(
            f"{where}: found {unit!r}, allowed: {', '.join(allowed)}.{nearest(unit, allowed)}"
        )
    return unit


def _table(entry: Entry, raw: Mapping[str, object], origin: str) -> Value:
    """The table of an entry: points in the card, or an HDF5 file named relative to the card."""
    where = f"{origin}: {entry.key}"
    if "file" in raw:
        if extra := sorted(raw.keys() & {"x", "x_unit", "value", "unit"}):
            raise CardError(f"{where}: found file and {', '.join(extra)}, allowed: one of the two.")
        file = raw["file"]
        if not isinstance(file, str) or not file:
            raise CardError(f"{where}.file: found {show(file)}, allowed: the path of an HDF5 file.")
        return check_value(entry, Path(origin).parent / file, origin)
    if raw.get("value") == IDEAL:
        return check_value(entry, IDEAL, origin)
    points = []
    for key, unit, dimension in (
        ("x", "x_unit", entry.spec.x_dimension),
        ("value", "unit", entry.spec.dimension),
    ):
        found = raw.get(key)
        if not isinstance(found, list) or not all(
            isinstance(v, float | int) and not isinstance(v, bool) for v in found
        ):
            words = "nothing" if found is None else show(found)
            raise CardError(f"{where}.{key}: found {words}, allowed: a list of numbers.")
        symbol = _unit(raw.get(unit), dimension, f"{where}.{unit}")
        if not all(math.isfinite(v) for v in found):
            raise CardError(f"{where}.{key}: found NaN or infinity, allowed: finite numbers.")
        points.append([to_base(v, symbol, dimension) for v in found])
    return check_value(entry, make_table(points[0], points[1], where), origin)


def _provenance(
    entry: Entry, raw: Mapping[str, object], sources: Mapping[str, Source], origin: str
) -> Provenance:
    texts: dict[str, str] = {}
    for name in ("kind", "source", "where", "why"):
        text = raw.get(name, "")
        if not isinstance(text, str):
            raise CardError(f"{origin}: {entry.key}.{name}: found {show(text)}, allowed: a text.")
        texts[name] = text.strip()
    kind = KINDS.get(texts["kind"])
    if kind is None:
        found = repr(texts["kind"]) if "kind" in raw else "nothing"
        raise CardError(
            f"{origin}: {entry.key}.kind: found {found}, allowed: {', '.join(WRITTEN_KINDS)}."
            f"{nearest(texts['kind'], WRITTEN_KINDS)}"
        )
    source, where = texts["source"], texts["where"]
    for name in ("source", "where"):
        if kind in ("measured", "fitted") and not texts[name]:
            raise CardError(
                f"{origin}: {entry.key}.{name}: found nothing, allowed: a text, because the kind "
                f"is {kind!r}; only an 'assumed' number may go without."
            )
    if source and source not in sources:
        raise CardError(
            f"{origin}: {entry.key}.source: found {source!r}, allowed: a key of {BIBLIOGRAPHY}: "
            f"{', '.join(sorted(sources)) or '(it has none)'}.{nearest(source, sources)}"
        )
    return Provenance(kind, source, where, texts["why"])


__all__ = ["list_cards", "load_card", "parse_card", "shipped_sources"]
