"""In which order the blocks of a tile are joined, and where they are kept: for wire_blocks.py.

A tile is halved, across its longer side, down to leaves of LEAF x LEAF cells. Padding lies on top
and to the right, where lines end: cells of conductance 0 there change nothing.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

LEAF = 8
# A step of a plan: a leaf, a join or the last join; where on the stack the block and its parts
# are, and how many ports they have; the ports that are cut; then groups of ports.
KIND, AT, AT_A, AT_B, SIZE, SIZE_A, SIZE_B, CUT, GROUPS = range(9)
ROW, COLUMN = AT_A, AT_B  # of a leaf
LEAF_STEP, JOIN_STEP, LAST_STEP = range(3)

_L, _B, _R, _T = range(4)


class _Block(NamedTuple):
    """Cells [top, bottom) x [left, right) of a padded tile, and the ports of such a block."""

    top: int
    bottom: int
    left: int
    right: int
    has_right: bool = False
    has_top: bool = False
    cut: int = -1
    """The group of ports where it is to be joined; it comes last."""

    def ports(self) -> list[int]:
        """How many L, B, R and T are."""
        high, wide = self.bottom - self.top, self.right - self.left
        return [high, wide, high if self.has_right else 0, wide if self.has_top else 0]

    def order(self) -> list[int]:
        """L, B, R and T but the cut, then the cut."""
        return sorted(range(4), key=lambda group: (group == self.cut, group))

    def start(self, group: int) -> int:
        """The first port of a group."""
        before = self.order()[: self.order().index(group)]
        return sum(self.ports()[g] for g in before)

    def size(self) -> int:
        """Number of ports."""
        return sum(self.ports())

    def halves(self) -> tuple[_Block, _Block]:
        """Lower and upper half, or left and right one, whichever way it is longer."""
        block = self._replace(cut=-1)
        high, wide = (self.bottom - self.top) // LEAF, (self.right - self.left) // LEAF
        if high > wide:
            middle = self.top + high // 2 * LEAF
            lower = block._replace(top=middle, has_top=True, cut=_T)
            return lower, block._replace(bottom=middle, cut=_B)
        middle = self.left + wide // 2 * LEAF
        left = block._replace(right=middle, has_right=True, cut=_R)
        return left, block._replace(left=middle, cut=_L)


def _groups(part: _Block, other: _Block, whole: _Block) -> list[int]:
    """Groups (from, to, number) that a part of a block keeps."""
    groups: list[int] = []
    for group in part.order()[:3]:
        # L and R count from the top, B and T from the left
        later = part.top > other.top if group in (_L, _R) else part.left > other.left
        to = whole.start(group) + (other.ports()[group] if later else 0)
        groups += [part.start(group), to, part.ports()[group]]
    return groups


def _last_groups(part: _Block) -> list[int]:
    """L and B that the part keeps, as rows and columns of the tile."""
    word = 0 if part.cut == _L else part.ports()[_L]
    bit = 0 if part.cut == _B else part.ports()[_B]
    return [0, part.top, word, word, part.left, bit, 0, 0, 0]


def _leaf_step(block: _Block, at: int) -> list[int]:
    groups: list[int] = []
    for group in block.order():
        to = 0 if block.cut < 0 else block.start(group)
        groups += [group * LEAF, to, block.ports()[group]]
    head = [LEAF_STEP, at, block.top, block.left, block.size(), 0, 0, 0]
    return head + groups + [0] * 6


@lru_cache(maxsize=32)
def plan_of(rows: int, columns: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Steps and scratch sizes for tiles of ``rows`` x ``columns``, padded to whole leaves.

    Each step leaves its block on a stack, from where a later join takes it.
    """
    high, wide = (-(-n // LEAF) * LEAF for n in (rows, columns))
    steps: list[list[int]] = []
    top = 0

    def visit(block: _Block, at: int) -> None:
        nonlocal top
        size = block.size()
        top = max(top, at + size**2)
        if block.bottom - block.top == LEAF == block.right - block.left:
            steps.append(_leaf_step(block, at))
            return
        a, b = block.halves()
        at_a = at + size**2
        at_b = at_a + a.size() ** 2
        visit(a, at_a)
        visit(b, at_b)
        head = [at, at_a, at_b, size, a.size(), b.size(), a.ports()[a.cut]]
        if block.cut < 0:
            steps.append([LAST_STEP, *head, *_last_groups(a), *_last_groups(b)])
        else:
            steps.append([JOIN_STEP, *head, *_groups(a, b, block), *_groups(b, a, block)])

    visit(_Block(0, high, 0, wide), 0)
    plan = np.array(steps, dtype=np.int64)
    s = plan[:, CUT]
    qa, qb = plan[:, SIZE_A] - s, plan[:, SIZE_B] - s
    most = np.maximum(qa, qb)
    sizes = (s * 0 + top, s * s, s * np.maximum(s, most), s * most, qa * qb, s)
    return plan, np.array([size.max() for size in sizes], dtype=np.int64)
