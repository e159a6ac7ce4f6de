"""Entries of a cell: frozen, closed, typed."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from eptsim.base.table import Table
from eptsim.cards.cell_entries import Cell, Programming, ReadNoise


def test_sections_are_frozen_and_closed() -> None:
    with pytest.raises(ValidationError):
        Cell().g_max_s = 1.0
    with pytest.raises(ValidationError):
        Cell.model_validate({"g_maxx_s": 1.0})


def test_a_table_is_an_entry_like_any_other() -> None:
    table = Table((0.0, 1.0), (0.0, 2.0))
    assert Programming(table=table).table is table
    with pytest.raises(ValidationError):
        ReadNoise(table=[(0.0, 1.0)])  # type: ignore[arg-type]
