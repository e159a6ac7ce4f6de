"""The corpus: its splits, its batches, and their reproducibility."""

from __future__ import annotations

import random
from itertools import chain, islice
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from eptsim.base.errors import InputError, TextError
from eptsim.olmo2.corpus import Corpus, load_corpus, load_text
from eptsim.olmo2.tokenizer import train_tokenizer

COUNTING = Corpus.from_tokens(np.arange(1000), 1000)


def test_split_by_position() -> None:
    assert COUNTING.train.tolist() == list(range(900))
    assert COUNTING.validation.tolist() == list(range(900, 1000))
    third = Corpus.from_tokens(np.arange(10), 10, validation_fraction=0.3)
    assert len(third.validation) == 3


@given(st.integers(2, 50), st.floats(1e-9, 1 - 1e-9))
def test_no_token_is_lost_and_no_split_is_empty(count: int, fraction: float) -> None:
    corpus = Corpus.from_tokens(np.arange(count), count, validation_fraction=fraction)
    assert len(corpus.train) >= 1 and len(corpus.validation) >= 1
    assert [*corpus.train, *corpus.validation] == list(range(count))


def test_arrays_and_fields_are_frozen() -> None:
    with pytest.raises(ValueError, match="read-only"):
        COUNTING.train[0] = 1
    with pytest.raises(AttributeError):
        COUNTING.vocab_size = 3  # type: ignore[misc]


def test_the_callers_array_is_neither_frozen_nor_followed() -> None:
    mine = np.arange(100, dtype=np.uint16)
    corpus = Corpus.from_tokens(mine, 100)
    mine[0] = 50
    assert corpus.train[0] == 0


@settings(deadline=None)  # the first draw compiles
@given(
    st.sampled_from(["train", "validation"]),
    st.integers(1, 9),
    st.integers(1, 60),
    st.integers(0, 2**63 - 1),
    st.integers(0, 2**40),
)
def test_targets_are_the_next_tokens(split: str, b: int, t: int, seed: int, index: int) -> None:
    tokens, targets = COUNTING.batch(split, b, t, seed, index)
    assert tokens.shape == targets.shape == (b, t)
    assert tokens.dtype == targets.dtype == torch.int64
    assert torch.equal(targets, tokens + 1)
    assert set(targets.flatten().tolist()) <= set(COUNTING.tokens(split).tolist())


def test_a_batch_is_a_function_of_seed_and_index_alone() -> None:
    state = torch.get_rng_state(), np.random.get_state()[1].tolist(), random.getstate()
    first = list(islice(COUNTING.batches("train", 4, 8, seed=3), 5))
    later = list(islice(COUNTING.batches("train", 4, 8, seed=3, start=3), 2))
    assert torch.equal(first[3][0], later[0][0]) and torch.equal(first[4][0], later[1][0])
    assert not torch.equal(first[0][0], first[1][0])
    assert not torch.equal(first[0][0], COUNTING.batch("train", 4, 8, 4, 0)[0])
    assert torch.equal(torch.get_rng_state(), state[0])
    assert np.random.get_state()[1].tolist() == state[1] and random.getstate() == state[2]


def test_pinned_draw() -> None:
    drawn = COUNTING.batch("train", 4, 1, seed=0, index=0)[0]
    assert drawn.flatten().tolist() == [391, 323, 306, 721]


def test_splitting_a_batch_does_not_change_its_rows() -> None:
    whole = COUNTING.batch("train", 8, 5, 1, 2)[0]
    halves = [COUNTING.batch("train", 4, 5, 1, i)[0] for i in (4, 5)]
    assert torch.equal(whole, torch.cat(halves))


def test_every_start_is_drawn_about_equally_often() -> None:
    starts = COUNTING.batch("train", 9000, 1, 0, 0)[0].flatten().numpy()
    counts = np.bincount(starts, minlength=899)[:899]
    expected = 9000 / 899
    chi_square = ((counts - expected) ** 2 / expected).sum()
    assert abs(chi_square - 898) < 4 * np.sqrt(2 * 898)


def test_fixed_batches_tile_the_split() -> None:
    count = COUNTING.fixed_batches("validation", 2, 10)
    assert count == 4
    seen = [COUNTING.fixed_batch("validation", 2, 10, i)[0].flatten().tolist() for i in range(4)]
    assert list(chain.from_iterable(seen)) == list(range(900, 980))
    with pytest.raises(TextError, match="batch index 4, allowed: below 4"):
        COUNTING.fixed_batch("validation", 2, 10, 4)


def test_one_window_of_exactly_the_split() -> None:
    tokens, targets = COUNTING.batch("validation", 1, 99, 0, 7)
    assert tokens[0, 0] == 900 and targets[0, -1] == 999
    with pytest.raises(TextError, match="100 validation tokens, allowed for length 100: at least"):
        COUNTING.batch("validation", 1, 100, 0, 0)


@pytest.mark.parametrize(
    ("b", "t", "i", "name"), [(0, 1, 0, "batch_size"), (1, 0, 0, "length"), (1, 1, -1, "index")]
)
def test_sizes_out_of_range(b: int, t: int, i: int, name: str) -> None:
    with pytest.raises(TextError, match=f"{name}: found"):
        COUNTING.batch("train", b, t, 0, i)
    with pytest.raises(TextError, match=f"{name}: found"):
        COUNTING.fixed_batch("train", b, t, i)


def test_batches_check_their_arguments_at_once() -> None:
    with pytest.raises(TextError, match="batch_size: found 0"):
        COUNTING.batches("train", 0, 1, 0)
    with pytest.raises(InputError, match=r"split: found 'valid'.*Did you mean 'validation'"):
        COUNTING.batches("valid", 1, 1, 0)


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        (np.array([0, 5]), "found token 5, allowed: 0 to 4"),
        (np.array([0, -1]), "found token -1"),
        (np.array([1]), r"shape \(1,\)"),
        (np.ones((2, 2), np.int64), r"shape \(2, 2\)"),
    ],
)
def test_bad_tokens(tokens: np.ndarray, message: str) -> None:
    with pytest.raises(TextError, match=message):
        Corpus.from_tokens(tokens, 5)


@pytest.mark.parametrize("fraction", [0.0, 1.0, -1.0, float("nan")])
def test_bad_fraction(fraction: float) -> None:
    with pytest.raises(TextError, match="validation_fraction: found"):
        Corpus.from_tokens(np.arange(10), 10, validation_fraction=fraction)


def test_unigram_loss_of_equal_counts_is_the_logarithm_of_their_number() -> None:
    corpus = Corpus.from_tokens(np.arange(1000) % 4, 4)
    assert corpus.unigram_loss("train") == pytest.approx(np.log(4), abs=1e-6)
    assert corpus.unigram_loss() == pytest.approx(np.log(4), abs=1e-2)


def test_hash_tells_sources_apart() -> None:
    same = Corpus.from_tokens(np.arange(1000), 1000, source="other", validation_fraction=0.5)
    assert same.sha256 == COUNTING.sha256 and len(same.sha256) == 64
    assert Corpus.from_tokens(np.arange(999), 1000).sha256 != COUNTING.sha256


def test_load_corpus_of_the_built_in_text() -> None:
    corpus, tokenizer = load_corpus(vocab_size=300)
    assert tokenizer is not None and corpus.vocab_size == tokenizer.vocab_size == 300
    assert corpus.source == "pydoc_data.topics"
    tokens = np.concatenate([corpus.train, corpus.validation])
    assert tokenizer.decode(tokens) == load_text()
    again, _ = load_corpus(tokenizer=tokenizer)
    assert again.sha256 == corpus.sha256


def test_load_corpus_of_a_short_text_reports_the_actual_vocabulary(tmp_path: Path) -> None:
    path = tmp_path / "short.txt"
    path.write_text("To be, or not to be: that is the question. " * 9)
    corpus, tokenizer = load_corpus(path)
    assert tokenizer is not None and corpus.vocab_size == tokenizer.vocab_size < 400
    assert corpus.source == "short.txt"


def test_load_corpus_of_a_token_file(tmp_path: Path) -> None:
    path = tmp_path / "train.bin"
    np.arange(500, dtype="<u2").tofile(path)
    corpus, tokenizer = load_corpus(path, vocab_size=500)
    assert tokenizer is None and corpus.vocab_size == 500
    assert isinstance(corpus.train, np.memmap)
    assert torch.equal(corpus.fixed_batch("train", 1, 3)[0], torch.tensor([[0, 1, 2]]))
    assert load_corpus(path)[0].vocab_size == 65536
    with pytest.raises(TextError, match="token 400 at position 400"):
        load_corpus(path, tokenizer=train_tokenizer("a cat " * 9, 256), vocab_size=400)
    with pytest.raises(TextError, match=r"allowed only for \.jsonl"):
        load_corpus(path, field="text")


def test_from_text_of_white_space() -> None:
    with pytest.raises(TextError, match="white space"):
        Corpus.from_text(" \n", train_tokenizer("a", 256))
