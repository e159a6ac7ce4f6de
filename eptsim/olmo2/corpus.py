"""Text and token sources, and the batches that training and measurements draw from them.

Tokens are split by position: the last part validates. A batch is a pure function of the seed and
its number, so that a resumed run, or one with other workers, sees the same data.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
import numpy.typing as npt
import torch

from eptsim.base import philox
from eptsim.base.errors import TextError, choice
from eptsim.base.streams import Stream
from eptsim.olmo2.sources import TEXT_SUFFIXES, load_text, load_tokens, source_name
from eptsim.olmo2.tokenizer import TextTokenizer, train_tokenizer

__all__ = ["SPLITS", "Batch", "Corpus", "load_corpus", "load_text", "load_tokens"]

SPLITS = ("train", "validation")
"""The parts of a corpus."""

Batch = tuple[torch.Tensor, torch.Tensor]
"""Tokens and targets, each int64 (B, T); targets[b, t] is the token after tokens[b, t]."""

TokenArray = npt.NDArray[np.integer[Any]]

_MASK = 0xFFFFFFFF


@final
@dataclass(frozen=True, eq=False)
class Corpus:
    """Tokens to train on and tokens to validate on.

    Attributes
    ----------
    train, validation : ndarray of unsigned integers, (N_train,) and (N_validation,)
        Read-only; from a ``.bin`` file they are mapped, not loaded.
    vocab_size : int
        Tokens lie in 0 .. vocab_size - 1.
    source : str
        Name of the source, without its folder.
    sha256 : str
        SHA-256 of all tokens as little-endian uint16 (uint32 above 65,536 tokens of vocabulary).
    """

    train: TokenArray
    validation: TokenArray
    vocab_size: int
    source: str
    sha256: str

    @classmethod
    def from_tokens(
        cls,
        tokens: TokenArray,
        vocab_size: int,
        source: str = "tokens",
        validation_fraction: float = 0.1,
    ) -> Corpus:
        """Split ``tokens`` (N,): the last ``validation_fraction`` of them validates.

        Raises
        ------
        TextError
            No tokens, a token outside the vocabulary, or a fraction outside (0, 1).
        """
        if not 0.0 < validation_fraction < 1.0:
            raise TextError(
                f"validation_fraction: found {validation_fraction!r}, allowed: between 0 and 1."
            )
        if tokens.ndim != 1 or len(tokens) < 2:
            raise TextError(
                f"{source}: found tokens of shape {tokens.shape}, allowed: (N,) with N >= 2."
            )
        low, high = int(tokens.min()), int(tokens.max())
        if low < 0 or high >= vocab_size:
            raise TextError(
                f"{source}: found token {low if low < 0 else high}, allowed: 0 to"
                f" {vocab_size - 1} (vocab_size {vocab_size})."
            )
        mapped = isinstance(tokens, np.memmap) and not tokens.flags.writeable
        kind = "<u2" if vocab_size <= 65536 else "<u4"
        stored = tokens.astype(kind, copy=not mapped).view()
        stored.setflags(write=False)
        held_out = min(max(math.floor(len(stored) * validation_fraction), 1), len(stored) - 1)
        border = len(stored) - held_out
        digest = hashlib.sha256(np.ascontiguousarray(stored).data).hexdigest()
        return cls(stored[:border], stored[border:], vocab_size, source, digest)

    @classmethod
    def from_text(
        cls,
        text: str,
        tokenizer: TextTokenizer,
        source: str = "text",
        validation_fraction: float = 0.1,
    ) -> Corpus:
        """Encode ``text`` and split it; errors as in :meth:`from_tokens`."""
        if not text.strip():
            raise TextError(f"{source}: found only white space, allowed: any text.")
        tokens = tokenizer.encode(text)
        return cls.from_tokens(tokens, tokenizer.vocab_size, source, validation_fraction)

    def tokens(self, split: str) -> TokenArray:
        """Return the tokens of ``split`` ("train" or "validation"), (N,)."""
        return self.train if choice(split, SPLITS, "split") == "train" else self.validation

    def batch(self, split: str, batch_size: int, length: int, seed: int, index: int) -> Batch:
        """Return random batch number ``index``: a pure function of ``seed`` and ``index``.

        Row j is example number index * batch_size + j, so two batches of 8 hold the rows of one
        batch of 16. Examples start anywhere in the split, with repetition.

        Returns
        -------
        tokens, targets : int64 tensors, (batch_size, length)

        Raises
        ------
        TextError
            The split has fewer than length + 1 tokens, or a size is not positive.
        """
        tokens = self._checked(split, batch_size, length, index)
        positions = len(tokens) - length
        key = Stream.of(seed, "corpus", split)
        first = index * batch_size
        starts = [_draw(key, first + row) % positions for row in range(batch_size)]
        return _windows(tokens, starts, length)

    def batches(
        self, split: str, batch_size: int, length: int, seed: int, start: int = 0
    ) -> Iterator[Batch]:
        """Yield random batches ``start``, ``start`` + 1, ... without end; see :meth:`batch`."""
        self._checked(split, batch_size, length, start)
        return self._endless(split, batch_size, length, seed, start)

    def _endless(
        self, split: str, batch_size: int, length: int, seed: int, index: int
    ) -> Iterator[Batch]:
        while True:
            yield self.batch(split, batch_size, length, seed, index)
            index += 1

    def fixed_batch(self, split: str, batch_size: int, length: int, index: int = 0) -> Batch:
        """Return batch ``index`` of consecutive windows that do not overlap, for measurements.

        Raises
        ------
        TextError
            As :meth:`batch`, or ``index`` is at or beyond :meth:`fixed_batches`.
        """
        tokens = self._checked(split, batch_size, length, index)
        count = self.fixed_batches(split, batch_size, length)
        if index >= count:
            raise TextError(
                f"{self.source}: found batch index {index}, allowed: below {count}, the number of"
                f" batches of {batch_size} windows of {length} tokens in the {len(tokens)}"
                f" {split} tokens."
            )
        first = index * batch_size
        return _windows(tokens, [(first + row) * length for row in range(batch_size)], length)

    def fixed_batches(self, split: str, batch_size: int, length: int) -> int:
        """Number of whole fixed batches in ``split``; may be 0."""
        tokens = self._checked(split, batch_size, length, 0)
        return (len(tokens) - 1) // length // batch_size

    def unigram_loss(self, split: str = "validation") -> float:
        """Cross-entropy (nats per token) of the training token frequencies on ``split``.

        What a model reaches that ignores context; one count is added to every token.
        """
        counts = np.bincount(self.train, minlength=self.vocab_size) + 1.0
        logarithms = np.log(counts / counts.sum())
        seen = np.bincount(self.tokens(split), minlength=self.vocab_size)
        return float(-(seen * logarithms).sum() / seen.sum())

    def _checked(self, split: str, batch_size: int, length: int, index: int) -> TokenArray:
        tokens = self.tokens(split)
        for name, value, least in (
            ("batch_size", batch_size, 1),
            ("length", length, 1),
            ("index", index, 0),
        ):
            if value < least:
                raise TextError(f"{name}: found {value}, allowed: {least} or more.")
        if len(tokens) < length + 1:
            raise TextError(
                f"{self.source}: found {len(tokens)} {split} tokens, allowed for length {length}:"
                f" at least {length + 1}. Give more text or a smaller length."
            )
        return tokens


def load_corpus(
    path: str | os.PathLike[str] | None = None,
    field: str | None = None,
    tokenizer: TextTokenizer | None = None,
    vocab_size: int | None = None,
    validation_fraction: float = 0.1,
) -> tuple[Corpus, TextTokenizer | None]:
    """Load a corpus from a ``.txt``, ``.jsonl`` or ``.bin`` file, or the built-in text.

    Parameters
    ----------
    path : path, optional
        The file; None takes the text that CPython ships for its help system.
    field : str, optional
        For ``.jsonl``: the field that holds the text ("text" where None).
    tokenizer : TextTokenizer, optional
        Where None, one is trained on the training part of the text.
    vocab_size : int, optional
        For text: the wanted size of the trained tokenizer (4,096 where None); for ``.bin``: the
        size that its tokens must fit (65,536 where None).
    validation_fraction : float
        Last part of the tokens, kept for validation.

    Returns
    -------
    corpus : Corpus
    tokenizer : TextTokenizer or None
        None for a ``.bin`` file without a tokenizer given.

    Raises
    ------
    TextError
        A source that cannot be used; see :func:`load_text` and :func:`load_tokens`.
    """
    name = source_name(path)
    if path is not None and Path(path).suffix.lower() not in TEXT_SUFFIXES:
        if field is not None:
            raise TextError(f"{path}: found field {field!r}, allowed only for .jsonl files.")
        size = vocab_size or (tokenizer.vocab_size if tokenizer is not None else 65536)
        mapped = load_tokens(path, size)
        return Corpus.from_tokens(mapped, size, name, validation_fraction), tokenizer
    text = load_text(path, field)
    if tokenizer is None:
        part = text[: math.ceil(len(text) * (1.0 - validation_fraction))]
        tokenizer = train_tokenizer(part, vocab_size or 4096)
    return Corpus.from_text(text, tokenizer, name, validation_fraction), tokenizer


def _draw(key: Stream, example: int) -> int:
    """64 random bits of one example number."""
    words = np.empty((4, 1), np.uint32)
    counter = (example & _MASK, example >> 32 & _MASK, 0)
    philox.fill_words(words, *map(np.uint32, (*counter, key.key0, key.key1)))
    return int(words[0, 0]) << 32 | int(words[1, 0])


def _windows(tokens: TokenArray, starts: list[int], length: int) -> Batch:
    rows = np.stack([tokens[s : s + length + 1] for s in starts]).astype(np.int64)
    both = torch.from_numpy(rows)
    return both[:, :-1].contiguous(), both[:, 1:].contiguous()
