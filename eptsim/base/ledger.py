"""The operation ledger: what a simulated run has asked of the chip.

The chip fills it while it runs; cost and report only read it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class ReadKey(NamedTuple):
    """What a read is counted under."""

    array: str
    direction: str
    phase: str


class DigitalKey(NamedTuple):
    """What a digital operation is counted under."""

    operation: str
    phase: str


@dataclass
class Ledger:
    """Counts, all exact integers.

    Attributes
    ----------
    reads : vectors read, by array, direction and phase
    dac_conversions, adc_conversions : values converted, by array, direction and phase
    digital : elementary digital operations (multiply-accumulates for matmuls, elements else), by
        operation and phase
    """

    reads: Counter[ReadKey] = field(default_factory=Counter)
    dac_conversions: Counter[ReadKey] = field(default_factory=Counter)
    adc_conversions: Counter[ReadKey] = field(default_factory=Counter)
    digital: Counter[DigitalKey] = field(default_factory=Counter)

    def count_read(self, key: ReadKey, vectors: int, inputs: int, outputs: int) -> None:
        """Count ``vectors`` reads, each converting ``inputs`` drives and ``outputs`` currents."""
        self.reads[key] += vectors
        self.dac_conversions[key] += vectors * inputs
        self.adc_conversions[key] += vectors * outputs

    def count_digital(self, operations: Mapping[str, int], phase: str) -> None:
        """Add ``operations`` (name -> count) under ``phase``."""
        for name, count in operations.items():
            self.digital[DigitalKey(name, phase)] += count

    def total_reads(self, direction: str | None = None, phase: str | None = None) -> int:
        """Vectors read, over all arrays, of one direction or phase where named."""
        return sum(
            count
            for key, count in self.reads.items()
            if direction in (None, key.direction) and phase in (None, key.phase)
        )

    def clear(self) -> None:
        """Forget everything counted so far."""
        for counter in (self.reads, self.dac_conversions, self.adc_conversions):
            counter.clear()
        self.digital.clear()

    def to_rows(self) -> list[dict[str, object]]:
        """One plain record per array, direction and phase, then one per digital operation."""
        rows: list[dict[str, object]] = [
            {
                **key._asdict(),
                "reads": count,
                "dac_conversions": self.dac_conversions[key],
                "adc_conversions": self.adc_conversions[key],
            }
            for key, count in sorted(self.reads.items())
        ]
        rows += [
            {**key._asdict(), "operations": count} for key, count in sorted(self.digital.items())
        ]
        return rows
