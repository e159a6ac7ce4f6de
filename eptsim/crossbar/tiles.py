"""How a matrix is cut into tiles, and the matmul of one tile segment."""

from __future__ import annotations

import torch

#: BLAS picks other kernels, with other orders of summation, for very few rows and splits sums
#: longer than this over threads. Padding and chunking keep a row's bits independent of the batch.
MIN_ROWS = 16
MAX_INNER = 512
#: A single line goes to a matrix-vector kernel, whose order depends on the number of rows.
MIN_LINES = 2


def cut(length: int, tile: int | None) -> list[slice]:
    """Slices of at most ``tile`` lines that cover ``length`` lines (``None``: one slice)."""
    step = length if tile is None else tile
    return [slice(start, min(start + step, length)) for start in range(0, length, step)]


def padded_rows(rows: int) -> int:
    """Number of rows to multiply so that each row's sum has the same order for any batch."""
    return max(rows, MIN_ROWS)


def operand(w: torch.Tensor) -> torch.Tensor:
    """``w`` (inner, out) in the memory layout that :func:`matmul` wants.

    MKL's float64 kernel for a transposed operand orders its sums by rows and threads. Its float32
    kernel does not, so there a view, which costs no memory, does.
    """
    return w.contiguous() if w.dtype == torch.float64 else w


def matmul(u: torch.Tensor, w: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
    """``u`` (rows, inner) times ``w`` (inner, out), the inner sum in fixed chunks."""
    inner = u.shape[1]
    if w.shape[1] < MIN_LINES:
        both = matmul(u, torch.cat([w, w], dim=1))
        result = both[:, :1].contiguous()
        return result if out is None else out.copy_(result)
    result = torch.mm(u[:, :MAX_INNER], w[:MAX_INNER], out=out)
    for start in range(MAX_INNER, inner, MAX_INNER):
        stop = start + MAX_INNER
        result = torch.addmm(result, u[:, start:stop], w[start:stop], out=result)
    return result
