"""Text and token files: what is read, and what every bad file is answered with."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eptsim.base.errors import TextError
from eptsim.olmo2.sources import load_text, load_tokens

UNICODE = st.text(st.characters(exclude_categories=["Cs"]))


def write(folder: Path, name: str, data: bytes | str) -> Path:
    path = folder / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return path


def test_built_in_text_is_english_and_fixed() -> None:
    text = load_text()
    assert len(text) > 400_000 and "the" in text.split()
    assert load_text() == text


@given(UNICODE.filter(lambda t: t.strip() and not t.startswith("\ufeff")))
def test_plain_text_is_returned_as_it_is(tmp_path_factory: pytest.TempPathFactory, t: str) -> None:
    assert load_text(write(tmp_path_factory.mktemp("t"), "a.TXT", t)) == t


def test_byte_order_mark_is_dropped(tmp_path: Path) -> None:
    assert load_text(write(tmp_path, "a.txt", b"\xef\xbb\xbfabc")) == "abc"


@given(st.lists(UNICODE.filter(str.strip), min_size=1, max_size=5), st.booleans())
def test_json_lines(tmp_path_factory: pytest.TempPathFactory, texts: list[str], asc: bool) -> None:
    lines = "\n\n".join(json.dumps({"n": 1, "text": t}, ensure_ascii=asc) for t in texts)
    path = write(tmp_path_factory.mktemp("t"), "a.jsonl", lines + "\r\n")
    assert load_text(path) == "\n\n".join(texts)


def test_json_field_by_name(tmp_path: Path) -> None:
    path = write(tmp_path, "a.jsonl", '{"text": "no", "body": "yes"}')
    assert load_text(path, field="body") == "yes"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 2: not JSON"),
        ("[" * 100_000, "line 2: not JSON"),
        ("9" * 5000, "line 2: not JSON"),
        ("[1]", "line 2: found a JSON array, allowed: an object"),
        ("null", "line 2: found a JSON null"),
        ('{"txt": "a"}', r"line 2: found no field 'text', found: txt\. Did you mean 'txt'"),
        ("{}", "line 2: found no field 'text', found: none"),
        ('{"text": 3}', "line 2, field 'text': found number, allowed: a string"),
        ('{"text": null}', "line 2, field 'text': found null"),
        ('{"text": "a\\ud800"}', "line 2, field 'text': found the lone surrogate"),
    ],
)
def test_bad_json_lines(tmp_path: Path, line: str, message: str) -> None:
    path = write(tmp_path, "a.jsonl", '{"text": "a"}\n' + line + "\n")
    with pytest.raises(TextError, match=message) as caught:
        load_text(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("suffix", [".txt", ".jsonl"])
def test_not_utf8_names_the_offset(tmp_path: Path, suffix: str) -> None:
    path = write(tmp_path, "a" + suffix, b"abc\xff")
    with pytest.raises(TextError, match=r"byte 0xff at offset 3"):
        load_text(path)


@pytest.mark.parametrize("data", ["", " \n\t\u2003"])
def test_no_text(tmp_path: Path, data: str) -> None:
    with pytest.raises(TextError, match="none but white space"):
        load_text(write(tmp_path, "a.txt", data))
    with pytest.raises(TextError, match="none but white space"):
        load_text(write(tmp_path, "a.jsonl", json.dumps({"text": data})))


def test_not_a_usable_file(tmp_path: Path) -> None:
    cases = {
        tmp_path / "none.txt": "no such file",
        tmp_path: "found a folder",
        write(tmp_path, "a.json", "{}"): r"suffix '.json', allowed: .*Did you mean '.jsonl'",
        write(tmp_path, "a", "x"): "suffix ''",
        write(tmp_path, "a.bin", b"ab"): r"found a token file, allowed for text: \.txt, \.jsonl",
    }
    for path, message in cases.items():
        with pytest.raises(TextError, match=message):
            load_text(path)
    os.mkfifo(tmp_path / "pipe.txt")
    with pytest.raises(TextError, match="no regular file"):
        load_text(tmp_path / "pipe.txt")


def test_field_without_json_lines(tmp_path: Path) -> None:
    with pytest.raises(TextError, match=r"field 'a', allowed only for \.jsonl"):
        load_text(write(tmp_path, "a.txt", "x"), field="a")
    with pytest.raises(TextError, match=r"allowed only for \.jsonl"):
        load_text(field="a")


@given(st.binary(max_size=300), st.sampled_from([".txt", ".jsonl", ".bin", ".xml"]))
def test_any_bytes_give_text_or_a_text_error(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, suffix: str
) -> None:
    path = write(tmp_path_factory.mktemp("t"), "a" + suffix, data)
    try:
        assert load_text(path).strip()
    except TextError as error:
        assert str(path) in str(error)


@given(st.lists(st.integers(0, 65535), min_size=1))
def test_token_file(tmp_path_factory: pytest.TempPathFactory, values: list[int]) -> None:
    path = tmp_path_factory.mktemp("t") / "a.bin"
    np.array(values, "<u2").tofile(path)
    tokens = load_tokens(path, 65536)
    assert isinstance(tokens, np.memmap) and not tokens.flags.writeable
    assert tokens.tolist() == values


@pytest.mark.parametrize(("data", "size"), [(b"", 0), (b"abc", 3)])
def test_token_file_of_odd_or_no_bytes(tmp_path: Path, data: bytes, size: int) -> None:
    with pytest.raises(TextError, match=f"found {size} bytes, allowed: a positive even number"):
        load_tokens(write(tmp_path, "a.bin", data))


def test_token_outside_the_vocabulary(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    np.array([1, 2, 512, 9, 700], "<u2").tofile(path)
    assert len(load_tokens(path, 701)) == 5
    with pytest.raises(TextError, match=r"token 512 at position 2 \(largest: 700\), allowed: 0 to"):
        load_tokens(path, 512)


def test_not_a_token_file(tmp_path: Path) -> None:
    with pytest.raises(TextError, match=r"suffix '\.txt', allowed for tokens: \.bin"):
        load_tokens(write(tmp_path, "a.txt", "ab"))
    with pytest.raises(TextError, match="no such file"):
        load_tokens(tmp_path / "a.bin")
