"""The generator against the published Random123 test vectors, and its normals against theory."""

import numpy as np
import pytest
import scipy.stats as st

from eptsim.base import philox
from eptsim.base.streams import Stream

U = np.uint32


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_philox_known_answers(counter, key, expected):
    # kat_vectors of Random123 (Salmon et al., SC 2011), philox 4x32-10
    assert tuple(int(w) for w in philox.philox(*map(U, counter), *map(U, key))) == expected


def test_normals_are_box_muller_of_the_words():
    n = 97
    words = np.empty((4, n), np.uint32)
    philox.fill_words(words, U(5), U(6), U(7), U(8), U(9))
    out = np.empty((1, 4 * n), np.float32)
    philox.normal_rows(out, 5, U(6), U(7), U(8), U(9))
    w = words.astype(np.float64)
    for first in (0, 2):
        radius = np.sqrt(-2 * np.log((np.floor(w[first] / 256) + 0.5) * 2.0**-24))
        angle = w[first + 1] * 2.0**-32 * 2 * np.pi
        np.testing.assert_allclose(out[0, first * n : (first + 1) * n], radius * np.cos(angle),
                                   atol=2e-6)
        np.testing.assert_allclose(out[0, (first + 1) * n : (first + 2) * n],
                                   radius * np.sin(angle), atol=2e-6)


def test_normals_have_the_moments_of_a_normal():
    x = np.concatenate(
        [Stream.of(s, "moments").normal(1024, 4096).ravel().astype(np.float64) for s in range(4)]
    )
    n = x.size  # 1.7e7 draws; standard errors: mean 1/sqrt(n), variance sqrt(2/n), ...
    assert abs(x.mean()) < 4 / n**0.5
    assert abs(x.var() - 1) < 4 * (2 / n) ** 0.5
    assert abs((x**3).mean()) < 4 * (15 / n) ** 0.5
    assert abs((x**4).mean() - 3) < 4 * (96 / n) ** 0.5
    bins = st.norm.ppf(np.linspace(0, 1, 257)[1:-1])
    counts = np.bincount(np.searchsorted(bins, x), minlength=256)
    assert st.chisquare(counts).pvalue > 1e-4


def test_uniforms_fill_the_interval():
    u = Stream.of(0, "u").uniform(512, 1001).astype(np.float64)
    assert 0 < u.min() and u.max() < 1
    assert abs(u.mean() - 0.5) < 4 / (12 * u.size) ** 0.5
    assert st.kstest(u.ravel()[:200000], "uniform").pvalue > 1e-4


def test_no_uniform_reaches_0_or_1():
    u = Stream.of(1, "edge").uniform(4096, 4096)  # 1.7e7 draws of 2^23 values
    assert u.min() > 0 and u.max() < 1
    assert u.max() > 1 - 2.0**-20


@pytest.mark.parametrize("shape", [(1, 1), (16, 8), (37, 13), (100, 1000)])
def test_one_thread_draws_the_same_bits_as_many(shape):
    for many, one in (
        (philox.normal_rows, philox.normal_rows_serial),
        (philox.uniform_rows, philox.uniform_rows_serial),
    ):
        a, b = np.empty(shape, np.float32), np.empty(shape, np.float32)
        many(a, 5, U(6), U(7), U(8), U(9))
        one(b, 5, U(6), U(7), U(8), U(9))
        np.testing.assert_array_equal(a, b)
