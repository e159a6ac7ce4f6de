"""Tiles cover the matrix once; a row of a product does not depend on its neighbours."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from eptsim.crossbar.tiles import MAX_INNER, cut, matmul, operand, padded_rows


@given(st.integers(1, 3000), st.none() | st.integers(1, 4000))
def test_tiles_cover_every_line_once(length, tile):
    parts = cut(length, tile)
    assert [i for part in parts for i in range(length)[part]] == list(range(length))
    assert all(part.stop - part.start <= (tile or length) for part in parts)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("inner", [1, MAX_INNER - 1, MAX_INNER, MAX_INNER + 1, 3 * MAX_INNER + 5])
@pytest.mark.parametrize("lines", [1, 2, 70])
def test_chunks_add_up(dtype, inner, lines):
    u, w = torch.randn(20, inner, dtype=dtype), torch.randn(inner, lines, dtype=dtype)
    want = (u.double() @ w.double()).to(dtype)
    tolerance = {torch.float32: 2e-4, torch.float64: 1e-12}[dtype]
    torch.testing.assert_close(matmul(u, w), want, rtol=0, atol=tolerance)
    out = torch.empty(20, lines, dtype=dtype)
    assert matmul(u, w, out=out) is out
    assert torch.equal(out, matmul(u, w))


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_a_row_keeps_its_bits_in_any_batch_and_with_any_number_of_threads(data):
    dtype = data.draw(st.sampled_from([torch.float32, torch.float64]))
    edges = [1, 2, 3, 15, 16, 17, 31, 64, 100, 128, 256, 300]
    rows = data.draw(st.sampled_from(edges) | st.integers(1, 300))
    inner = data.draw(st.sampled_from([*edges, 511, 512, 513, 1024, 1408]) | st.integers(1, 1500))
    lines = data.draw(st.sampled_from(edges) | st.integers(1, 600))
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 99)))
    weight = torch.randn(lines, inner + 13, generator=generator, dtype=dtype)
    transposed = data.draw(st.booleans())
    w = (operand(weight.T) if transposed else weight.T.contiguous())[5 : 5 + inner]
    u = torch.randn(rows, inner + 13, generator=generator, dtype=dtype)[:, 5 : 5 + inner]

    def product(start, stop, threads):
        padded = u.new_zeros((padded_rows(stop - start), inner))
        padded[: stop - start] = u[start:stop]
        torch.set_num_threads(threads)
        return matmul(padded, w)[: stop - start]

    before = torch.get_num_threads()
    try:
        whole = product(0, rows, 2)
        start = data.draw(st.integers(0, rows - 1))
        stop = data.draw(st.integers(start + 1, rows))
        for a, b in ((start, stop), (start, start + 1), (0, rows)):
            for threads in (1, 2):
                assert torch.equal(product(a, b, threads), whole[a:b])
    finally:
        torch.set_num_threads(before)
