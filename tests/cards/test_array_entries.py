"""Entries of arrays and lines: their defaults are a perfect array."""

from __future__ import annotations

from eptsim.cards import load_card
from eptsim.cards.array_entries import DEFAULT_FULL_SCALE, Array, Clock, Direction, Node


def test_defaults_are_ideal() -> None:
    card = load_card("ideal")
    assert (card.array, card.node, card.clock) == (Array(), Node(), Clock())
    assert card.forward == card.transpose == Direction()
    assert (Direction().offset, Direction().dac_bits, Array().wire_word_ohm) == (0.0, None, None)


def test_full_scale_is_the_output_range_or_12() -> None:
    assert Direction().full_scale == DEFAULT_FULL_SCALE == 12.0
    assert Direction(output_range=3.0).full_scale == 3.0
