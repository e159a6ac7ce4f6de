"""How many digital operations the periphery does, from shapes alone."""

from __future__ import annotations

from collections import Counter

from eptsim.olmo2.shape import Olmo2Shape


def block_forward_operations(shape: Olmo2Shape, batch: int, positions: int) -> Counter[str]:
    """Digital operations of one block, forward, for ``batch`` sequences of ``positions`` tokens.

    ``attention_mac``: multiply-accumulates of q k^T and A v under the causal mask. The others count
    elements: each norm, rotation, exponential, SiLU and elementwise add or multiply once.
    """
    tokens = batch * positions
    pairs = batch * positions * (positions + 1) // 2
    hidden, inner = shape.hidden_size, shape.intermediate_size
    return Counter(
        attention_mac=2 * pairs * hidden,
        softmax=pairs * shape.num_attention_heads,
        norm=4 * tokens * hidden,
        rope=2 * tokens * hidden,
        silu=tokens * inner,
        elementwise=tokens * (inner + 2 * hidden),
    )


def block_vjp_operations(shape: Olmo2Shape, batch: int, positions: int) -> Counter[str]:
    """Digital operations of one block's vector-Jacobian product, the local forward included.

    Each forward operation is redone from the held line values and has a backward of its own; that
    of a matmul or of the gate's product has two factors to send a signal to.
    """
    forward = block_forward_operations(shape, batch, positions)
    total = Counter({name: 2 * count for name, count in forward.items()})
    total["attention_mac"] += forward["attention_mac"]
    total["elementwise"] += batch * positions * shape.intermediate_size
    return total


def outer_product_operations(shape: Olmo2Shape, batch: int, positions: int) -> Counter[str]:
    """Multiply-accumulates of the seven outer products of one block."""
    hidden, inner = shape.hidden_size, shape.intermediate_size
    cells = 4 * hidden * hidden + 3 * hidden * inner
    return Counter(outer_product_mac=batch * positions * cells)


def readout_operations(shape: Olmo2Shape, batch: int, positions: int) -> Counter[str]:
    """Digital operations of the final norm, readout and loss, forward only."""
    tokens = batch * positions
    return Counter(
        readout_mac=tokens * shape.hidden_size * shape.vocab_size,
        norm=tokens * shape.hidden_size,
        softmax=tokens * shape.vocab_size,
    )
