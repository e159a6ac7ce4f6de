"""Byte-level BPE tokenizer, trained on the user's own text and kept as a Hugging Face file.

Every byte has a token of its own, so any Unicode text encodes and decodes back to itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, final

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from eptsim.base.errors import TextError

FILE_NAME = "tokenizer.json"
"""Name of the tokenizer's file in a model folder, as Hugging Face has it."""

MIN_VOCAB = 256
"""One token for each byte: the smallest byte-level vocabulary."""

MAX_VOCAB = 65536
"""Largest vocabulary that :func:`train_tokenizer` makes: its tokens fit uint16."""

_CHUNK = 1 << 20  # characters per call of the encoder: bounds its memory on long texts
_PARALLEL = "TOKENIZERS_PARALLELISM"


@final
class TextTokenizer:
    """A tokenizer: text to token numbers and back.

    Parameters
    ----------
    tokenizer : tokenizers.Tokenizer
        The Hugging Face tokenizer to use.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._chunks = isinstance(tokenizer.pre_tokenizer, pre_tokenizers.ByteLevel)
        self._size = max(tokenizer.get_vocab(with_added_tokens=True).values(), default=-1) + 1

    @property
    def vocab_size(self) -> int:
        """Actual number of tokens (one more than the largest token number)."""
        return self._size

    def encode(self, text: str) -> npt.NDArray[np.int64]:
        """Return the tokens of ``text``, shape (N,); no special tokens are added.

        Raises
        ------
        TextError
            The text holds a lone surrogate, which no UTF-8 text can hold.
        """
        check_unicode(text)
        pieces = _pieces(text) if self._chunks else iter((text,))
        parts = [
            np.asarray(self._tokenizer.encode(piece, add_special_tokens=False).ids, np.int64)
            for piece in pieces
        ]
        return np.concatenate(parts) if parts else np.empty(0, np.int64)

    def decode(self, tokens: Iterable[int] | npt.NDArray[np.integer[Any]]) -> str:
        """Return the text of ``tokens``, shape (N,). Bytes that are not UTF-8 decode to U+FFFD.

        Raises
        ------
        TextError
            A token lies outside the vocabulary.
        """
        ids = [int(token) for token in tokens]
        size = self._size
        for place, token in enumerate(ids):
            if not 0 <= token < size:
                raise TextError(
                    f"token at position {place}: found {token}, allowed: 0 to {size - 1}."
                )
        return str(self._tokenizer.decode(ids, skip_special_tokens=False))

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the tokenizer to ``path``, a ``.json`` file or an existing folder; return the file.

        Raises
        ------
        TextError
            The file cannot be written.
        """
        target = Path(path)
        if target.is_dir():
            target = target / FILE_NAME
        try:
            target.write_text(self._tokenizer.to_str(pretty=True), encoding="utf-8")
        except OSError as error:
            raise TextError(f"tokenizer {target}: cannot be written ({error.strerror}).") from error
        return target

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> TextTokenizer:
        """Read a Hugging Face ``tokenizer.json``, or the one in the folder ``path``.

        Raises
        ------
        TextError
            No such file, or not a tokenizer.
        """
        source = Path(path)
        if source.is_dir():
            source = source / FILE_NAME
        try:
            return cls(Tokenizer.from_str(source.read_text(encoding="utf-8")))
        except OSError as error:
            raise TextError(f"tokenizer {source}: cannot be read ({error.strerror}).") from error
        except Exception as error:  # the Rust side raises bare Exception on a bad file
            raise TextError(
                f"tokenizer {source}: not a tokenizer ({error}), allowed: a tokenizer.json that"
                " Hugging Face tokenizers wrote."
            ) from error


def train_tokenizer(text: str, vocab_size: int = 4096) -> TextTokenizer:
    """Train a byte-level BPE tokenizer on ``text``; the same text gives the same tokenizer.

    Parameters
    ----------
    text : str
        The training text.
    vocab_size : int
        Wanted number of tokens, 256 to 65,536. A short text has fewer pairs to merge and gives
        fewer tokens: :attr:`TextTokenizer.vocab_size` tells how many.

    Raises
    ------
    TextError
        Empty text, a lone surrogate, or a vocabulary size out of range.
    """
    if not MIN_VOCAB <= vocab_size <= MAX_VOCAB:
        raise TextError(
            f"vocab_size: found {vocab_size}, allowed: {MIN_VOCAB} (one token per byte) to"
            f" {MAX_VOCAB}."
        )
    if not text.strip():
        raise TextError(
            f"tokenizer text: found {len(text)} characters, all white space; allowed: any text."
        )
    check_unicode(text)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    with _one_thread():
        tokenizer.train_from_iterator(_pieces(text), trainer)
    return TextTokenizer(tokenizer)


def check_unicode(text: str, where: str = "text") -> None:
    """Raise TextError if ``text`` holds a lone surrogate; ``where`` names the text."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise TextError(
            f"{where}: found the lone surrogate U+{ord(text[error.start]):04X} at character"
            f" {error.start}, allowed: Unicode text."
        ) from None


def _pieces(text: str, size: int = _CHUNK) -> Iterator[str]:
    """Cut ``text`` after single line ends, where the byte-level split has a border anyway."""
    start = 0
    while len(text) - start > size:
        cut = start + size
        while (cut := text.find("\n", cut)) >= 0:
            cut += 1
            if cut >= len(text) or not (text[cut - 2].isspace() or text[cut].isspace()):
                break
        if cut < 0:
            break
        yield text[start:cut]
        start = cut
    if start < len(text):
        yield text[start:]


@contextmanager
def _one_thread() -> Iterator[None]:
    # Threads once used make every later fork of the process warn; training takes well under a
    # second without them. A setting of the user's own is left alone.
    if _PARALLEL in os.environ:
        yield
        return
    os.environ[_PARALLEL] = "false"
    try:
        yield
    finally:
        os.environ.pop(_PARALLEL, None)
