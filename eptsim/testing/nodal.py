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

#: What stands for no resistance (ohm): the nodes of a line are then one, to rounding.
SHORT_OHM = 1e-7


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

    Kirchhoff's current law at the two nodes of every crossing, solved by a sparse LU factorisation
    (SuperLU). ``g_s`` (rows, columns) in siemens.
    """
    rows, columns = g_s.shape
    size = rows * columns
    word = np.arange(size).reshape(rows, columns)
    bit = size + word
    g_word, g_bit = 1.0 / max(ohms.word, SHORT_OHM), 1.0 / max(ohms.bit, SHORT_OHM)
    g_in = 1.0 / max(ohms.word + ohms.driver, SHORT_OHM)
    g_out = 1.0 / max(ohms.bit + ohms.sense, SHORT_OHM)
    a = np.concatenate([word.ravel(), word[:, :-1].ravel(), bit[:-1].ravel()])
    b = np.concatenate([bit.ravel(), word[:, 1:].ravel(), bit[1:].ravel()])
    g = np.concatenate([
        g_s.ravel(),
        np.full(rows * (columns - 1), g_word),
        np.full((rows - 1) * columns, g_bit),
    ])
    ends = np.concatenate([word[:, 0], bit[-1]])
    to_ends = np.concatenate([np.full(rows, g_in), np.full(columns, g_out)])
    row = np.concatenate([a, b, a, b, ends])
    column = np.concatenate([a, b, b, a, ends])
    value = np.concatenate([g, g, -g, -g, to_ends])
    network = coo_matrix((value, (row, column)), shape=(2 * size, 2 * size)).tocsc()
    drive = np.zeros((2 * size, rows))
    drive[word[:, 0], np.arange(rows)] = g_in
    nodes = splu(network).solve(drive)
    return np.asarray(g_out * nodes[bit[-1]].T)
