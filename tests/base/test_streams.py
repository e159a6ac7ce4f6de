"""Addresses, not sequences: the same address gives the same draw, another gives another."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from eptsim.base.errors import InputError
from eptsim.base.streams import Stream, check_seed


@settings(max_examples=30, deadline=None)
@given(
    st.integers(0, 2**63 - 1), st.integers(1, 40), st.integers(1, 70), st.integers(0, 2**32 - 1)
)
def test_any_split_of_the_rows_gives_the_same_draws(seed, rows, lines, read):
    stream = Stream.of(seed, "array", "forward")
    whole = stream.normal(rows, lines, read=read)
    cut = rows // 2
    split = [
        stream.normal(cut, lines, read=read),
        stream.normal(rows - cut, lines, first_row=cut, read=read),
    ]
    np.testing.assert_array_equal(np.concatenate(split), whole)


def test_every_part_of_the_address_matters_and_draws_are_uncorrelated():
    def draw(seed=0, path=("a", "b"), **where):
        return Stream.of(seed, *path).normal(200, 500, **where).ravel()

    base = draw()
    n = base.size
    others = [
        draw(seed=1), draw(path=("a", "c")), draw(path=("a",)), draw(read=1), draw(plane=1),
        draw(first_row=200),
    ]
    for other in others:
        assert abs(np.mean(base * other)) < 4.5 / n**0.5


def test_path_parts_are_not_simply_joined():
    assert Stream.of(0, "ab", "c") != Stream.of(0, "a", "bc")


def test_torch_draws_are_the_numba_draws():
    stream = Stream.of(3, "x")
    want = stream.normal(17, 83, first_row=2**32 - 5, read=9, plane=2)
    got = stream.normal_torch(
        17, 83, first_row=2**32 - 5, read=9, plane=2, device=torch.device("cpu")
    )
    np.testing.assert_allclose(got.numpy(), want, atol=3e-6)


def test_global_generators_are_left_alone():
    torch_state, numpy_state = torch.random.get_rng_state(), np.random.get_state()[1].copy()
    Stream.of(0, "x").normal(4, 4)
    assert torch.equal(torch_state, torch.random.get_rng_state())
    np.testing.assert_array_equal(numpy_state, np.random.get_state()[1])


@pytest.mark.parametrize("seed", [-1, 2**63, 1.0, "0", None, True])
def test_bad_seeds_are_refused(seed):
    with pytest.raises(InputError, match="seed: found"):
        check_seed(seed)
