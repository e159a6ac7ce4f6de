"""The suite finds wires that are swapped, missing, approximate, or only there in one direction."""

import pytest

from eptsim.testing.factories import ArrayScaled, eptsim_crossbar

WORD, BIT = "array.wire_word_ohm", "array.wire_bit_ohm"
DRIVER, SENSE = "array.driver_ohm", "array.sense_ohm"


def with_changes(change):
    """A factory that takes ``change(card)`` for the card's entries."""
    return lambda weight, card, seed: eptsim_crossbar(weight, card.override(change(card)), seed)


def swapped(card):
    return {WORD: card.array.wire_bit_ohm, BIT: card.array.wire_word_ohm}


def ends_swapped(card):
    return {DRIVER: card.array.sense_ohm, SENSE: card.array.driver_ohm}


def ladder(card):
    return {"array.wire_model": "ladder", WORD: card.array.wire_word_ohm}


def exact(card):
    return {"array.wire_model": "exact", WORD: card.array.wire_word_ohm}


def no_wires(card):
    return {WORD: None, BIT: None, DRIVER: None, SENSE: None}


def half_the_ladder(card):
    return {WORD: 0.9 * (card.array.wire_word_ohm or 0.0)}


def one_tile(card):
    return {"array.rows": None, "array.columns": None}


@pytest.mark.parametrize(
    ("check", "change"),
    [
        ("published", swapped), ("published", no_wires), ("published", ladder),
        ("word-line-offset", swapped), ("bit-line-offset", swapped), ("wire-offset", swapped),
        ("wire-offset", one_tile), ("wire-differential", no_wires), ("wire-differential", ladder),
        ("driver-offset", ends_swapped), ("sense-offset", ends_swapped),
        ("wire-and-terminal-differential", ends_swapped),
        ("ladder", no_wires), ("ladder", half_the_ladder), ("limits", no_wires),
    ],
)
def test_the_suite_finds(catches, check, change):
    catches(f"circuits/{check}", with_changes(change), eptsim_crossbar)


class OneWay(ArrayScaled):
    """Reads transposed without wires."""

    def __init__(self, inside, bare):
        super().__init__(inside, 1.0)
        self.bare = bare

    def read_transpose(self, d, **keywords):
        return self.bare.read_transpose(d, **keywords)


def test_wires_in_one_direction_only_are_found(catches):
    def one_way(weight, card, seed):
        bare = eptsim_crossbar(weight, card.override(no_wires(card)), seed)
        return OneWay(eptsim_crossbar(weight, card, seed), bare)

    for check in ("reciprocity", "wire-differential", "published"):
        catches(f"circuits/{check}", one_way, eptsim_crossbar)
