"""Plans: every cell once, ports that fit, and no block where another one still lies."""

import numpy as np
import pytest

from eptsim.crossbar import wire_plan as w

SHAPES = [(1, 1), (8, 8), (8, 9), (9, 8), (64, 64), (100, 37), (5, 200), (256, 257)]


@pytest.mark.parametrize("shape", SHAPES)
def test_every_leaf_once(shape):
    plan, _ = w.plan_of(*shape)
    high, wide = (-(-n // w.LEAF) for n in shape)
    leaves = plan[plan[:, w.KIND] == w.LEAF_STEP]
    places = {(int(i), int(j)) for i, j in leaves[:, [w.ROW, w.COLUMN]]}
    assert len(leaves) == len(places) == high * wide
    assert places == {(w.LEAF * i, w.LEAF * j) for i in range(high) for j in range(wide)}
    assert (plan[:, w.KIND] == w.JOIN_STEP).sum() == max(high * wide - 2, 0)
    assert (plan[:, w.KIND] == w.LAST_STEP).sum() == (high * wide > 1)


@pytest.mark.parametrize("shape", SHAPES)
def test_blocks_on_the_stack(shape):
    plan, sizes = w.plan_of(*shape)
    there = {}  # place: number of ports
    for step in plan:
        at, size = int(step[w.AT]), int(step[w.SIZE])
        if step[w.KIND] != w.LEAF_STEP:
            for place, part in ((w.AT_A, w.SIZE_A), (w.AT_B, w.SIZE_B)):
                assert there.pop(int(step[place])) == step[part]
        if step[w.KIND] == w.LAST_STEP:
            break
        for other, ports in there.items():
            assert other + ports**2 <= at or at + size**2 <= other
        assert at + size**2 <= sizes[0]
        there[at] = size
        targets = step[w.GROUPS :].reshape(-1, 3)
        ports = np.concatenate([np.arange(to, to + number) for _, to, number in targets])
        if len(plan) > 1:
            assert np.array_equal(np.sort(ports), np.arange(size))
    assert len(there) == (len(plan) == 1)


def test_plans_are_kept():
    assert w.plan_of(20, 30) is w.plan_of(20, 30)
