"""Read the bibliography that card entries cite: a small reader of BibTeX entries.

It takes ``@kind{key, field = {text}, field = "text", field = number}`` with balanced braces, and
text between entries as comment. It knows no ``@string``, no ``#`` and no cross references.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from eptsim.base.errors import CardError

REQUIRED = ("author", "title", "year")
"""Fields without which a source cannot be found by a reader."""

_HEAD = re.compile(r"@(?P<kind>[A-Za-z]+)\s*\{\s*(?P<key>[^\s,{}]+)\s*,")
_FIELD = re.compile(r"\s*(?P<name>[A-Za-z][\w-]*)\s*=\s*")
_NUMBER = re.compile(r"\d+")
_END = re.compile(r"\s*,?\s*\}")
_COMMA = re.compile(r"\s*,")


@dataclass(frozen=True, slots=True)
class Source:
    """One entry of the bibliography."""

    key: str
    kind: str
    """article, inproceedings, misc, ..., in lower case."""
    fields: Mapping[str, str]
    """Field name in lower case to its text, braces removed."""


def parse_bibliography(text: str, origin: str) -> dict[str, Source]:
    """Return the sources of a BibTeX text by key.

    Raises
    ------
    CardError
        An entry cannot be read, is there twice, or lacks author, title or year; the message
        names ``origin`` and the line.
    """
    sources: dict[str, Source] = {}
    position = text.find("@")
    while position >= 0:
        head = _HEAD.match(text, position)
        if head is None:
            raise _error(text, position, origin, "no '@kind{key,' here")
        key = head["key"]
        if key in sources:
            raise _error(text, position, origin, f"source {key!r} is there twice")
        fields, end = _fields(text, head.end(), origin)
        missing = [name for name in REQUIRED if name not in fields]
        if missing:
            raise _error(text, position, origin, f"source {key!r} lacks {', '.join(missing)}")
        sources[key] = Source(key, head["kind"].lower(), fields)
        position = text.find("@", end)
    return sources


def _fields(text: str, position: int, origin: str) -> tuple[dict[str, str], int]:
    """Read the fields of one entry; return them and the place after its closing brace."""
    fields: dict[str, str] = {}
    while True:
        end = _END.match(text, position)
        if end is not None:
            return fields, end.end()
        match = _FIELD.match(text, position)
        if match is None:
            raise _error(
                text, position, origin, "expected 'field = {text}' or the entry's closing brace"
            )
        name = match["name"].lower()
        if name in fields:
            raise _error(text, position, origin, f"field {name!r} is there twice")
        fields[name], position = _value(text, match.end(), origin)
        comma = _COMMA.match(text, position)
        if comma is not None:
            position = comma.end()
        elif _END.match(text, position) is None:
            raise _error(text, position, origin, f"expected ',' or '}}' after field {name!r}")


def _value(text: str, position: int, origin: str) -> tuple[str, int]:
    number = _NUMBER.match(text, position)
    if number is not None:
        return number[0], number.end()
    opening = text[position : position + 1]
    if opening not in ('"', "{") or not opening:
        raise _error(text, position, origin, 'expected {text}, "text" or a number')
    depth = 0
    for index in range(position + 1, len(text)):
        letter = text[index]
        if depth == 0 and letter == ('"' if opening == '"' else "}"):
            words = text[position + 1 : index].replace("{", "").replace("}", "").split()
            return " ".join(words), index + 1
        depth += {"{": 1, "}": -1}.get(letter, 0)
        if depth < 0:
            break
    raise _error(text, position, origin, "a text that begins here does not end")


def _error(text: str, position: int, origin: str, problem: str) -> CardError:
    line = text.count("\n", 0, position) + 1
    return CardError(f"{origin}: line {line}: {problem}.")
