"""Wire resistance, exactly: the one matrix that a passive tile with resistive lines is.

A tile of conductances with wire segments between its cells is a linear network, so drives and
sensed currents are related by one effective conductance matrix. Eliminating the network column by
column needs only dense (rows x rows) factorisations.

Circuit: word line i is driven at its left end through one word-line segment, and has one segment
between neighbouring columns; bit line j has one segment between neighbouring rows, and is sensed
at its bottom end through one segment into virtual ground. The network is reciprocal: driven at the
sensing ends and sensed at the driving ends, it shows the transpose of the same matrix.
"""

from __future__ import annotations

import math
from typing import overload

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from eptsim.base.errors import InputError


@overload
def effective_conductance(g_s: Tensor, r_word_ohm: float, r_bit_ohm: float) -> Tensor: ...
@overload
def effective_conductance(
    g_s: npt.NDArray[np.float64], r_word_ohm: float, r_bit_ohm: float
) -> npt.NDArray[np.float64]: ...
def effective_conductance(
    g_s: Tensor | npt.NDArray[np.float64], r_word_ohm: float, r_bit_ohm: float
) -> Tensor | npt.NDArray[np.float64]:
    """Effective conductances of tiles with resistive word and bit lines, in float64.

    With bit line j (tridiagonal Laplacian L_b, grounded at its bottom) as A_j = L_b + diag(G_j),
    K_j = diag(G_j) - diag(G_j) A_j^-1 diag(G_j) is what the word lines see of column j; the word
    nodes follow as v_j = P_j v_{j-1}, P_j = g_w (g_w (2 I - P_{j+1}) + K_j)^-1, with I in place of
    (2 I - P) in the last column; and column j carries g_b e_m^T A_j^-1 diag(G_j) v_j.

    Parameters
    ----------
    g_s : (..., rows, columns), siemens
        Cell conductances, all >= 0; torch tensor or numpy array. Leading dimensions are tiles.
    r_word_ohm, r_bit_ohm : float
        Resistance of one word-line and one bit-line segment, >= 0.

    Returns
    -------
    (..., rows, columns), siemens, float64, the type of ``g_s``
        Current of bit line j per volt on word line i, all other word lines grounded.

    Raises
    ------
    InputError
        For negative or non-finite conductances or resistances, or fewer than two dimensions.
    """
    g = torch.as_tensor(g_s).to(torch.float64)
    if g.dim() < 2 or 0 in g.shape:
        raise InputError(
            f"effective_conductance: g_s: found shape {tuple(g.shape)}, allowed: "
            "(..., rows, columns) with no empty dimension."
        )
    if not bool(torch.isfinite(g).all()) or bool((g < 0).any()):
        raise InputError(
            "effective_conductance: g_s: found a negative or non-finite conductance, "
            "allowed: finite values of 0 or more (siemens)."
        )
    for name, value in (("r_word_ohm", r_word_ohm), ("r_bit_ohm", r_bit_ohm)):
        if not (math.isfinite(value) and value >= 0):
            raise InputError(
                f"effective_conductance: {name}: found {value!r}, allowed: 0 or more (ohm)."
            )
    flat = g.reshape(-1, *g.shape[-2:])
    result = _columns(flat, r_word_ohm, r_bit_ohm).reshape(g.shape)
    return result if isinstance(g_s, Tensor) else result.numpy()


def _columns(g: Tensor, r_word_ohm: float, r_bit_ohm: float) -> Tensor:
    """``effective_conductance`` of tiles (tiles, rows, columns)."""
    rows, columns = g.shape[-2:]
    result = torch.empty_like(g)
    unit = torch.eye(rows, dtype=g.dtype, device=g.device)
    below = 2.0 * unit  # (2 I - P_{j+1}), with I where there is no further column
    known: Tensor | None = None  # currents of the columns to the right, per volt on v_j
    for j in range(columns - 1, -1, -1):
        seen, sensed = _bit_line(g[:, :, j], r_bit_ohm)
        if r_word_ohm == 0:
            result[:, :, j] = sensed
            continue
        last = j == columns - 1
        network = seen * r_word_ohm + (unit if last else below)
        step = torch.cholesky_inverse(torch.linalg.cholesky(network))  # P_j, symmetric
        rows_below = sensed.unsqueeze(1) if known is None else torch.cat(
            (sensed.unsqueeze(1), known), dim=1
        )
        known = rows_below @ step
        below = 2.0 * unit - step
    if known is not None:
        result = known.transpose(1, 2).contiguous()
    return result


def _bit_line(g: Tensor, r_bit_ohm: float) -> tuple[Tensor, Tensor]:
    """K_j (tiles, rows, rows) and g_b e_m^T A_j^-1 diag(G_j) (tiles, rows) of cells g of a column.

    Everything is multiplied through by the segment resistance, so that a zero one is no limit.
    """
    if r_bit_ohm == 0:
        return torch.diag_embed(g), g
    rows = g.shape[-1]
    laplacian = torch.zeros(rows, rows, dtype=g.dtype, device=g.device)
    index = torch.arange(rows, device=g.device)
    laplacian[index, index] = 2.0
    laplacian[0, 0] = 1.0
    laplacian[index[1:], index[:-1]] = -1.0
    laplacian[index[:-1], index[1:]] = -1.0
    inverse = torch.cholesky_inverse(
        torch.linalg.cholesky(laplacian + torch.diag_embed(g * r_bit_ohm))
    )
    sensed = inverse[:, -1, :] * g
    coupling = g.unsqueeze(-1) * inverse * (g.unsqueeze(-2) * r_bit_ohm)
    return torch.diag_embed(g) - coupling, sensed
