"""How far one gradient is from another, per array and per block, never only in total."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from eptsim.base.errors import InputError
from eptsim.ep.gradient import Gradient
from eptsim.olmo2.block import MATRICES

if TYPE_CHECKING:
    import pandas as pd

_NAMES = {
    "self_attn.q_proj.weight": "W_q",
    "self_attn.k_proj.weight": "W_k",
    "self_attn.v_proj.weight": "W_v",
    "self_attn.o_proj.weight": "W_proj",
    "mlp.gate_proj.weight": "W_1",
    "mlp.up_proj.weight": "W_3",
    "mlp.down_proj.weight": "W_2",
}
ARRAY_NAMES = tuple(_NAMES[suffix] for group in MATRICES.values() for suffix in group)
_PATTERN = re.compile(r"model\.layers\.(\d+)\.(.+)")


@dataclass(frozen=True)
class Row:
    """One line of a comparison.

    Attributes
    ----------
    scope : str
        ``array`` (one weight matrix), ``block`` (the seven matrices of a block together), ``all``
        (every matrix on the chip) or ``digital`` (one digital parameter).
    block : int or None
        Block number, from 0, where there is one.
    name : str
        Array (W_q ... W_2) or parameter name.
    cosine : float
        <g, g0> / (|g| |g0|); 1 if both are zero, 0 if one is.
    relative_error : float
        |g - g0| / |g0|; infinite if only g0 is zero.
    norm_ratio : float
        |g| / |g0|; infinite if only g0 is zero.
    sign_disagreement : float
        Fraction of the entries whose signs differ.
    """

    scope: str
    block: int | None
    name: str
    cosine: float
    relative_error: float
    norm_ratio: float
    sign_disagreement: float


@dataclass(frozen=True)
class Comparison:
    """Rows per array, per block, over all arrays, and per digital parameter."""

    rows: tuple[Row, ...]

    def select(self, scope: str) -> tuple[Row, ...]:
        """The rows of one scope, in model order."""
        return tuple(row for row in self.rows if row.scope == scope)

    @property
    def total(self) -> Row:
        """All arrays of the chip together. Raises InputError where none was compared."""
        rows = self.select("all")
        if not rows:
            raise InputError("compare: total: found no array among the parameters compared.")
        return rows[0]

    def to_pandas(self) -> pd.DataFrame:
        """All rows as a pandas DataFrame, one column per field."""
        import pandas

        return pandas.DataFrame([vars(row) for row in self.rows])

    def __str__(self) -> str:
        header = f"{'':24}{'cosine':>10}{'rel. error':>12}{'norm ratio':>12}{'sign dis.':>11}"
        lines = [header]
        for row in self.rows:
            if row.scope == "digital":
                continue
            label = row.name if row.block is None else f"block {row.block} {row.name}"
            lines.append(
                f"{label:24}{row.cosine:10.4f}{row.relative_error:12.3e}{row.norm_ratio:12.4f}"
                f"{row.sign_disagreement:11.4f}"
            )
        return "\n".join(lines)


def compare(
    gradient: Gradient | Mapping[str, Tensor], reference: Gradient | Mapping[str, Tensor]
) -> Comparison:
    """Compare ``gradient`` with ``reference`` (usually :func:`eptsim.backprop_gradient`).

    Raises
    ------
    InputError
        If the two do not hold the same parameters, at least one, in the same shapes.
    """
    a, b = _tensors(gradient, "gradient"), _tensors(reference, "reference")
    _check_same(a, b)
    blocks: dict[int, list[str]] = {}
    digital = []
    for name in b:
        match = _PATTERN.fullmatch(name)
        if match and match[2] in _NAMES:
            blocks.setdefault(int(match[1]), []).append(name)
        else:
            digital.append(name)
    rows = []
    for block, names in sorted(blocks.items()):
        names.sort(key=lambda n: list(_NAMES).index(_PATTERN.fullmatch(n)[2]))  # type: ignore[index]
        for name in names:
            array = _NAMES[name.split(f"layers.{block}.")[1]]
            rows.append(_row("array", block, array, [(a[name], b[name])]))
        rows.append(_row("block", block, "all arrays", [(a[n], b[n]) for n in names]))
    every = [(a[n], b[n]) for names in blocks.values() for n in names]
    if every:
        rows.append(_row("all", None, "all arrays", every))
    for name in digital:
        match = _PATTERN.fullmatch(name)
        rows.append(_row("digital", int(match[1]) if match else None, name, [(a[name], b[name])]))
    return Comparison(tuple(rows))


def _tensors(given: object, name: str) -> Mapping[str, Tensor]:
    if isinstance(given, Gradient):
        return given.grads
    if not isinstance(given, Mapping):
        raise InputError(
            f"compare: {name}: found {type(given).__name__}, allowed: a Gradient, or a mapping of "
            "parameter names to tensors."
        )
    if not given:
        raise InputError(f"compare: {name}: found no parameter, allowed: 1 or more.")
    for key, value in given.items():
        if not isinstance(key, str) or not isinstance(value, Tensor):
            raise InputError(
                f"compare: {name}: found {type(value).__name__} under {key!r}, allowed: tensors "
                "under parameter names."
            )
    return given


def _check_same(a: Mapping[str, Tensor], b: Mapping[str, Tensor]) -> None:
    if missing := sorted(set(a) ^ set(b)):
        raise InputError(
            f"compare: found {missing[0]!r} in only one gradient, allowed: the same names in both."
        )
    for name, value in a.items():
        if value.shape != b[name].shape:
            raise InputError(
                f"compare: {name}: found shapes {tuple(value.shape)} and {tuple(b[name].shape)}, "
                "allowed: the same."
            )


def _row(
    scope: str, block: int | None, name: str, pairs: Iterable[tuple[Tensor, Tensor]]
) -> Row:
    dot = own = other = error = 0.0
    entries = differ = 0
    for x, y in pairs:
        u, v = x.detach().double(), y.detach().double()
        dot += float((u * v).sum())
        own += float(u.square().sum())
        other += float(v.square().sum())
        error += float((u - v).square().sum())
        entries += u.numel()
        differ += int((torch.sign(u) != torch.sign(v)).sum())
    if own == 0 and other == 0:
        cosine, relative, ratio = 1.0, 0.0, 1.0
    elif other == 0:
        cosine, relative, ratio = 0.0, math.inf, math.inf
    else:
        cosine = 0.0 if own == 0 else dot / (math.sqrt(own) * math.sqrt(other))  # NaN stays NaN
        relative, ratio = math.sqrt(error / other), math.sqrt(own / other)
    return Row(scope, block, name, cosine, relative, ratio, differ / entries)
