"""The card inside a saved file, and which entries another card may change."""

import h5py
import pytest

from eptsim.base.errors import CardError, CheckpointError
from eptsim.base.h5 import Reader
from eptsim.cards import list_cards, load_card
from eptsim.cards.saved import (
    READ_ENTRIES,
    acts_at_read,
    changed_entries,
    check_exchange,
    put_card,
    read_card,
)
from eptsim.cards.schema import SCHEMA

IDEAL = load_card("ideal")


@pytest.fixture
def file():
    with h5py.File("memory", "w", driver="core", backing_store=False) as made:
        yield made


@pytest.mark.parametrize("name", list_cards())
def test_a_card_comes_back_whole(name, file):
    card = load_card(name).override({"forward.offset": 0.0123456789})
    put_card(file, card)
    found = read_card(Reader("f", file))
    assert found == card
    assert found.text() == card.text()
    assert found.sha256 == card.sha256


@pytest.mark.parametrize("key", ["card_text", "card_sha256", "card_sources"])
def test_a_card_that_was_changed_is_refused(key, file):
    put_card(file, IDEAL)
    file.attrs[key] = "[1"
    with pytest.raises(CheckpointError, match="f: /card_"):
        read_card(Reader("f", file))
    put_card(file, IDEAL)
    file.attrs["card_text"] = IDEAL.override({"forward.offset": 0.1}).text()
    with pytest.raises(CheckpointError, match="card_sha256: found another hash"):
        read_card(Reader("f", file))


def test_every_entry_acts_at_programming_or_at_a_read():
    """A new entry counts as one of programming until it is listed."""
    for entry in READ_ENTRIES:
        assert any(key.startswith(entry) for key in SCHEMA), entry
    for key in ("cell.g_max_s", "cell.levels", "cell.programming.sigma", "cell.drift.nu",
                "cell.drift.time_s", "cell.retention.tau_s", "cell.spread.g_max", "cell.stuck.low",
                "array.rows", "array.mapping", "array.slices", "array.scaling",
                "array.wire_bit_ohm", "array.wire_model"):  # fmt: skip
        assert not acts_at_read(key)
    for key in ("cell.read_noise.law", "cell.flicker.sigma", "cell.iv.law", "array.coding",
                "array.read_voltage_v", "forward.adc_bits", "transpose.offset", "node.offset",
                "clock.pass_s"):  # fmt: skip
        assert acts_at_read(key)


def test_changed_entries_are_in_the_order_of_the_schema():
    other = IDEAL.override({"transpose.gain": 0.1, "cell.levels": 4})
    assert changed_entries(IDEAL, other) == ("cell.levels", "transpose.gain")
    assert changed_entries(IDEAL, IDEAL) == ()


def test_only_what_acts_at_a_read_may_change():
    check_exchange(IDEAL, IDEAL.override({"forward.adc_bits": 8, "node.offset": 0.1}), "f")
    bad = IDEAL.override({"forward.adc_bits": 8, "cell.levels": 4, "cell.drift.nu": 0.1,
                          "array.mapping": "offset"})  # fmt: skip
    with pytest.raises(CardError) as caught:
        check_exchange(IDEAL, bad, "f.h5")
    message = str(caught.value)
    assert message.startswith("f.h5: card 'ideal' differs")
    for part in ("cell.levels: found 4, allowed: ideal", "cell.drift.nu: found 0.1, allowed: 0.0",
                 "array.mapping: found 'offset', allowed: 'differential'"):  # fmt: skip
        assert part in message
    assert "adc_bits" not in message
