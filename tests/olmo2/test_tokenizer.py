"""The tokenizer: lossless, deterministic, honest about its size, quiet."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eptsim.base.errors import TextError
from eptsim.olmo2 import tokenizer as module
from eptsim.olmo2.tokenizer import TextTokenizer, train_tokenizer

TEXT = "The cat sat on the mat. The cat ate the rat.\nÉté, naïve, 東京, 🙂!\n\n  def f(x):\n" * 20
# this text has fewer than 400 - 256 pairs to merge: 302 tokens
TOKENIZER = train_tokenizer(TEXT, 400)
UNICODE = st.text(st.characters(exclude_categories=["Cs"]))


@given(UNICODE)
def test_round_trip_of_any_unicode(text: str) -> None:
    assert TOKENIZER.decode(TOKENIZER.encode(text)) == text


@given(st.lists(st.integers(0, 255)))
def test_any_tokens_decode(ids: list[int]) -> None:
    assert isinstance(TOKENIZER.decode(ids), str)


@settings(max_examples=300)
@given(st.text(st.sampled_from(list("ab \n\n\n\r\t'.1\u2028\u00a0\x0b")), max_size=60))
def test_pieces_do_not_change_the_tokens(text: str) -> None:
    pieces = list(module._pieces(text, size=5))
    assert "".join(pieces) == text
    whole = TOKENIZER._tokenizer.encode(text).ids
    assert [i for p in pieces for i in TOKENIZER._tokenizer.encode(p).ids] == whole


def test_pieces_do_cut() -> None:
    assert list(module._pieces("aaaa\nbbbb\n\ncccc\ndddd\n", size=3)) == [
        "aaaa\n",
        "bbbb\n\ncccc\n",
        "dddd\n",
    ]


def test_tokens_are_int64_and_within_the_vocabulary() -> None:
    tokens = TOKENIZER.encode(TEXT)
    assert tokens.dtype == np.int64 and tokens.ndim == 1
    assert tokens.min() >= 0 and tokens.max() < TOKENIZER.vocab_size
    assert TOKENIZER.encode("").shape == (0,)


def test_merges_shorten_the_text() -> None:
    assert len(TOKENIZER.encode(TEXT)) < 0.5 * len(TEXT.encode())


def test_full_vocabulary_when_the_text_allows_it() -> None:
    assert train_tokenizer(TEXT, 300).vocab_size == 300


def test_short_text_gives_a_smaller_vocabulary_and_says_so() -> None:
    small = train_tokenizer("a cat", 4096)
    assert 256 <= small.vocab_size < 300
    assert small.decode(small.encode("dog é")) == "dog é"


def test_deterministic_across_processes() -> None:
    code = (
        "import sys; from eptsim.olmo2.tokenizer import train_tokenizer as t;"
        "sys.stdout.write(t('The cat sat on the mat; a rat ate it. ' * 9 + 'xy zw ' * 9, 300)"
        "._tokenizer.to_str())"
    )
    outputs = {
        subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout
        for _ in range(3)
    }
    assert len(outputs) == 1 and json.loads(outputs.pop())["model"]["type"] == "BPE"


def test_no_warning_on_fork_and_environment_is_left_alone() -> None:
    code = (
        "import os; from eptsim.olmo2.tokenizer import train_tokenizer as t\n"
        "k = t('the cat sat ' * 99, 300); k.encode('the cat ' * 99)\n"
        "assert 'TOKENIZERS_PARALLELISM' not in os.environ\n"
        "pid = os.fork()\n"
        "k.encode('the cat')\n"
        "if pid: os.waitpid(pid, 0)\n"
    )
    environment = {k: v for k, v in os.environ.items() if k != "TOKENIZERS_PARALLELISM"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, env=environment
    )
    assert done.stderr == b"" and done.stdout == b""


def test_the_users_parallelism_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "true")
    train_tokenizer("a cat", 256)
    assert os.environ["TOKENIZERS_PARALLELISM"] == "true"


def test_save_and_load(tmp_path: Path) -> None:
    path = TOKENIZER.save(tmp_path)
    assert path == tmp_path / "tokenizer.json"
    for source in (path, tmp_path):
        loaded = TextTokenizer.load(source)
        assert loaded.vocab_size == TOKENIZER.vocab_size
        np.testing.assert_array_equal(loaded.encode(TEXT), TOKENIZER.encode(TEXT))
        assert loaded.decode(loaded.encode(TEXT)) == TEXT


def test_transformers_reads_the_file(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    TOKENIZER.save(tmp_path)
    fast = transformers.PreTrainedTokenizerFast(tokenizer_file=str(tmp_path / "tokenizer.json"))
    assert fast(TEXT)["input_ids"] == TOKENIZER.encode(TEXT).tolist()


@pytest.mark.parametrize("size", [0, 255, 65537, -1])
def test_vocab_size_out_of_range(size: int) -> None:
    with pytest.raises(TextError, match=f"vocab_size: found {size}, allowed: 256"):
        train_tokenizer(TEXT, size)


@pytest.mark.parametrize("text", ["", " \n\t "])
def test_nothing_to_train_on(text: str) -> None:
    with pytest.raises(TextError, match="white space"):
        train_tokenizer(text)


def test_lone_surrogate_is_refused() -> None:
    for call in (TOKENIZER.encode, train_tokenizer):
        with pytest.raises(TextError, match=r"U\+D800 at character 3"):
            call("abc\ud800")


@pytest.mark.parametrize("token", [-1, 302])
def test_decode_outside_the_vocabulary(token: int) -> None:
    with pytest.raises(TextError, match=f"position 1: found {token}, allowed: 0 to 301"):
        TOKENIZER.decode([5, token])


@given(st.binary(max_size=200))
def test_load_of_garbage(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.mktemp("t") / "tokenizer.json"
    path.write_bytes(data)
    with pytest.raises(TextError, match="not a tokenizer"):
        TextTokenizer.load(path)


def test_load_of_nothing_and_save_to_nowhere(tmp_path: Path) -> None:
    with pytest.raises(TextError, match=r"tokenizer.json: cannot be read \(No such file"):
        TextTokenizer.load(tmp_path)
    with pytest.raises(TextError, match="cannot be written"):
        TOKENIZER.save(tmp_path / "no" / "t.json")
