"""What one card entry is: its meaning, unit and limits, written in the annotation of its field."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from pydantic import BaseModel, ConfigDict

from eptsim.base.table import Table

Value: TypeAlias = float | int | str | Table | None
"""What an entry holds, in SI: a number, a choice, a table, or None for ideal."""


@dataclass(frozen=True, slots=True)
class Spec:
    """Limits and meaning of one entry, written in the annotation of its field."""

    doc: str
    dimension: str = "dimensionless"
    """Of the value; of y where the entry is a table."""
    low: float = 0.0
    high: float = 1.0
    above_low: bool = False
    """True where ``low`` itself is not allowed."""
    has_ideal: bool = True
    """False where no value means 'no flaw', so ``None`` cannot be given."""
    x_dimension: str = ""
    """Of x where the entry is a table."""
    columns: tuple[str, str] = ("x", "y")
    """Names of the two datasets where the table is an HDF5 file."""


class Section(BaseModel):
    """A table of a card: entries, or tables of entries."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        allow_inf_nan=False,
        arbitrary_types_allowed=True,
    )
