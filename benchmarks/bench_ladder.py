"""The ladder model of wires against the exact one, for each shipped card.

No card states wire resistances, because no source does; so each is measured at 0.5, 2 and 8 ohm
per segment, word and bit line alike, on tiles of its own size (256 x 256 at most) that hold
Gaussian weights. "Taken": what the wires change of the stored matrix; "ladder": what the ladder
model gets wrong of the exact one. Both relative, Frobenius norm.
"""

from __future__ import annotations

import torch
from timing import machine, write_section

import eptsim

OHMS = (0.5, 2.0, 8.0)
LARGEST = 256


def measure(name: str, ohm: float) -> tuple[float, float]:
    """Change that the wires make, and the error of the ladders, on one tile of card ``name``."""
    card = eptsim.load_card(name)
    rows, columns = (min(n or LARGEST, LARGEST) for n in (card.array.rows, card.array.columns))
    card = card.override({"array.rows": rows, "array.columns": columns})
    weight = torch.randn(columns, rows, generator=torch.Generator().manual_seed(0))
    wired = card.override(
        {"array.wire_word_ohm": ohm, "array.wire_bit_ohm": ohm, "array.wire_model": "ladder"}
    )
    bare = eptsim.Crossbar(weight, card).weight()
    exact = eptsim.Crossbar(weight, wired.override({"array.wire_model": "exact"})).weight()
    taken = float((exact - bare).norm() / bare.norm())
    return taken, eptsim.Crossbar(weight, wired).wires_error()


def main() -> None:
    """Measure, print and record."""
    rows = []
    for name in eptsim.list_cards():
        numbers = [measure(name, ohm) for ohm in OHMS]
        cells = " | ".join(f"{taken:.1%} | {ladder:.2%}" for taken, ladder in numbers)
        top = eptsim.load_card(name).cell.g_max_s * 1e6
        rows.append(f"| `{name}` | {top:g} uS | {cells} |")
    head = " | ".join(f"taken, {ohm:g} ohm | ladder" for ohm in OHMS)
    write_section(
        "Ladders against exact wires, per card",
        "`python benchmarks/bench_ladder.py`: one tile of Gaussian weights; relative change that "
        "the wires make of the stored matrix, and relative error of the ladder model against the "
        f"exact one.\n\n{machine()}\n\n| card | g_max | {head} |\n"
        f"|---|---{'|---' * 2 * len(OHMS)}|\n"
        + "\n".join(rows),
    )


if __name__ == "__main__":
    main()
