"""Exact counts, by array, direction and phase."""

from eptsim.base.ledger import DigitalKey, Ledger, ReadKey

FREE = ReadKey("layers.0.qkv", "forward", "free")
NUDGED = ReadKey("layers.0.qkv", "transpose", "nudged")


def filled():
    ledger = Ledger()
    ledger.count_read(FREE, 10, 3, 4)
    ledger.count_read(NUDGED, 7, 4, 3)
    ledger.count_read(FREE, 1, 3, 4)
    ledger.count_digital({"norm": 5, "softmax": 2}, "free")
    ledger.count_digital({"norm": 1}, "free")
    return ledger


def test_counts_add_up():
    ledger = filled()
    assert ledger.reads == {FREE: 11, NUDGED: 7}
    assert ledger.dac_conversions == {FREE: 33, NUDGED: 28}
    assert ledger.adc_conversions == {FREE: 44, NUDGED: 21}
    norm, softmax = DigitalKey("norm", "free"), DigitalKey("softmax", "free")
    assert ledger.digital == {norm: 6, softmax: 2}


def test_totals():
    ledger = filled()
    assert ledger.total_reads() == 18
    assert ledger.total_reads("forward") == 11
    assert ledger.total_reads(phase="nudged") == 7
    assert ledger.total_reads("forward", "nudged") == 0


def test_rows_are_plain_and_sorted():
    ledger = Ledger()
    ledger.count_read(NUDGED, 7, 4, 3)
    ledger.count_read(FREE, 11, 3, 4)
    ledger.count_digital({"softmax": 2}, "free")
    name = "layers.0.qkv"
    assert ledger.to_rows() == [
        {"array": name, "direction": "forward", "phase": "free", "reads": 11,
         "dac_conversions": 33, "adc_conversions": 44},
        {"array": name, "direction": "transpose", "phase": "nudged", "reads": 7,
         "dac_conversions": 28, "adc_conversions": 21},
        {"operation": "softmax", "phase": "free", "operations": 2},
    ]  # fmt: skip


def test_rows_leave_the_counts_alone():
    ledger = filled()
    ledger.to_rows()
    assert ledger == filled()


def test_clear():
    ledger = filled()
    ledger.clear()
    assert ledger == Ledger()
    assert ledger.to_rows() == []


def test_counts_are_exact_beyond_64_bits():
    ledger = Ledger()
    for _ in range(3):
        ledger.count_read(FREE, 2**62, 2**10, 1)
    assert ledger.reads[FREE] == 3 * 2**62
    assert ledger.dac_conversions[FREE] == 3 * 2**72
