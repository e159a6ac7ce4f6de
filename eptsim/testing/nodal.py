"""The circuit of a tile solved node by node: the truth about wires, in a dozen lines of algebra.

Word line i is driven at its left end through the driver's resistance and one segment of wire, and
has one segment between neighbouring columns; bit line j has one segment between neighbouring rows,
and is sensed at its bottom end through one segment and the sense resistance, into virtual ground.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_matrix
from scipy.sparse.linalg import splu

Array = npt.NDArray[np.float64]

@dataclass(frozen=True)
class Resistances:
    """Resistances (ohm) of a tile's wires and terminals."""

    word: float = 0.0
    bit: float = 0.0
    driver: float = 0.0
    sense: float = 0.0

    def changes(self) -> dict[str, object]:
        """As entries of a card; those that are 0 are left out."""
        named = {
            "array.wire_word_ohm": self.word, "array.wire_bit_ohm": self.bit,
            "array.driver_ohm": self.driver, "array.sense_ohm": self.sense,
        }  # fmt: skip
        return {key: value for key, value in named.items() if value > 0}


def transfer(g_s: Array, ohms: Resistances) -> Array:
    """Current (A) of each bit line per volt on each word line, (rows, columns), of cells ``g_s``.

    Kirchhoff's current law at every node, solved by a sparse LU factorisation (SuperLU). Nodes
    with no resistance between them are one. ``g_s`` (rows, columns) in siemens.
    """
    rows, columns = g_s.shape
    source = np.arange(rows)
    ground = rows + np.arange(columns)
    word, n = _line_nodes(rows, columns, ohms.word, ohms.driver, source, rows + columns)
    bit, n = _line_nodes(columns, rows, ohms.bit, ohms.sense, ground, n)
    bit = bit.T
    branches = [(word, bit, g_s)]
    if ohms.word > 0:
        branches.append((word[:, :-1], word[:, 1:], np.full((rows, columns - 1), 1 / ohms.word)))
    if ohms.bit > 0:
        branches.append((bit[:-1], bit[1:], np.full((rows - 1, columns), 1 / ohms.bit)))
    if ohms.word + ohms.driver > 0:
        branches.append((source, word[:, 0], np.full(rows, 1 / (ohms.word + ohms.driver))))
    if ohms.bit + ohms.sense > 0:
        branches.append((bit[-1], ground, np.full(columns, 1 / (ohms.bit + ohms.sense))))
    a, b, g = (np.concatenate([part[k].ravel() for part in branches]) for k in range(3))
    row, column = np.concatenate([a, b, a, b]), np.concatenate([a, b, b, a])
    network = coo_matrix((np.concatenate([g, g, -g, -g]), (row, column)), shape=(n, n)).tocsr()
    ends = rows + columns  # nodes at given voltages: 1 V on one source after the other
    known = np.eye(ends, rows)
    into_ground = network[rows:ends]
    currents = -np.asarray(into_ground[:, :ends] @ known)
    if n > ends:
        inside = splu(network[ends:, ends:].tocsc())
        nodes = inside.solve(-np.asarray(network[ends:, :ends] @ known))
        currents -= np.asarray(into_ground[:, ends:] @ nodes)
    return np.asarray(currents.T)


def _line_nodes(
    lines: int, cells: int, wire: float, terminal: float, end: npt.NDArray[np.int64], first: int
) -> tuple[npt.NDArray[np.int64], int]:
    """Numbers (lines, cells) of the nodes of lines that begin at the nodes ``end``.

    New ones are numbered from ``first``; returns also the next free number.
    """
    if wire > 0:
        count = lines * cells
        return first + np.arange(count).reshape(lines, cells), first + count
    own = first + np.arange(lines) if terminal > 0 else end
    return np.repeat(own[:, None], cells, axis=1), first + (lines if terminal > 0 else 0)
