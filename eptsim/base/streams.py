"""Random streams: every draw is a pure function of what it is for.

A :class:`Stream` is a key made from a chip seed and a path of names ("layers.0.qkv", "transpose",
"read", ...). Its draws are addressed by counters (row, read number, plane, line), never by "the
next number". The same address gives the same bits whatever the number of workers, the batch split
or the order of the calls. No global generator is touched.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from eptsim.base import philox
from eptsim.base.errors import InputError

_MASK = 0xFFFFFFFF
#: Below this many draws one thread is faster: tens of microseconds.
_FEW = 2**16


def check_seed(seed: object) -> int:
    """Return ``seed`` if it is an integer in 0 .. 2^63 - 1; else raise InputError."""
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or not 0 <= seed < 2**63:
        raise InputError(f"seed: found {seed!r}, allowed: an integer from 0 to 2^63 - 1.")
    return int(seed)


@dataclass(frozen=True)
class Stream:
    """A 64-bit Philox key.

    Attributes
    ----------
    key0, key1 : int
        The two 32-bit halves of the key.
    """

    key0: int
    key1: int

    @classmethod
    def of(cls, seed: int, *path: str) -> Stream:
        """Key of ``seed`` and ``path`` (BLAKE2b of both, so that near seeds are unrelated)."""
        text = "\x1f".join((str(check_seed(seed)), *path)).encode()
        digest = hashlib.blake2b(text, digest_size=8).digest()
        return cls(int.from_bytes(digest[:4], "little"), int.from_bytes(digest[4:], "little"))

    def _counters(self, read: int, plane: int) -> tuple[np.uint32, np.uint32, np.uint32, np.uint32]:
        return (
            np.uint32(read & _MASK),
            np.uint32(plane & _MASK),
            np.uint32(self.key0),
            np.uint32(self.key1),
        )

    def normal(
        self, rows: int, lines: int, *, first_row: int = 0, read: int = 0, plane: int = 0
    ) -> npt.NDArray[np.float32]:
        """Standard normals (rows, lines), float32; row r has the address first_row + r."""
        out = np.empty((rows, lines), np.float32)
        if out.size:
            fill = philox.normal_rows_serial if out.size < _FEW else philox.normal_rows
            fill(out, first_row, *self._counters(read, plane))
        return out

    def uniform(
        self, rows: int, lines: int, *, first_row: int = 0, read: int = 0, plane: int = 0
    ) -> npt.NDArray[np.float32]:
        """Uniforms in (0, 1), (rows, lines), float32; addresses as in :meth:`normal`."""
        out = np.empty((rows, lines), np.float32)
        if out.size:
            fill = philox.uniform_rows_serial if out.size < _FEW else philox.uniform_rows
            fill(out, first_row, *self._counters(read, plane))
        return out

    def normal_torch(
        self,
        rows: int,
        lines: int,
        *,
        first_row: int = 0,
        read: int = 0,
        plane: int = 0,
        device: torch.device,
    ) -> torch.Tensor:
        """The numbers of :meth:`normal` in torch operations, for any device, float32.

        The words are the same to the bit; the normals agree to float32 rounding, since each
        device has its own logarithm and sine.
        """
        n = (lines + 3) // 4
        block = torch.arange(n, device=device, dtype=torch.int64).expand(rows, n)
        row = torch.arange(first_row, first_row + rows, device=device, dtype=torch.int64)
        words = _philox_torch(
            (
                block,
                (row & _MASK)[:, None].expand(rows, n),
                torch.full_like(block, read & _MASK),
                torch.full_like(block, plane & _MASK),
            ),
            self.key0,
            self.key1,
        )
        parts: list[torch.Tensor] = []
        for a, b in ((words[0], words[1]), (words[2], words[3])):
            u = ((a >> 8).double() + 0.5) * 2.0**-24
            angle = b.double() * (2.0**-32 * 2.0 * torch.pi)
            radius = torch.sqrt(-2.0 * torch.log(u))
            parts += [radius * torch.cos(angle), radius * torch.sin(angle)]
        return torch.cat(parts, dim=1)[:, :lines].float()


def _mul_hi_lo(a: torch.Tensor, constant: int) -> tuple[torch.Tensor, torch.Tensor]:
    # int64 products of two 32-bit words wrap, but the bits are those of the unsigned product
    product = a * constant
    return (product >> 32) & _MASK, product & _MASK


def _philox_torch(
    counters: tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], key0: int, key1: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    c0, c1, c2, c3 = counters
    for _ in range(10):
        hi0, lo0 = _mul_hi_lo(c0, 0xD2511F53)
        hi1, lo1 = _mul_hi_lo(c2, 0xCD9E8D57)
        c0, c1, c2, c3 = hi1 ^ c1 ^ key0, lo1, hi0 ^ c3 ^ key1, lo0
        key0 = (key0 + 0x9E3779B9) & _MASK
        key1 = (key1 + 0xBB67AE85) & _MASK
    return c0, c1, c2, c3
