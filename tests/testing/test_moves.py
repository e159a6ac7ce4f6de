"""The suite finds other laws of time and voltage."""

import pytest

from eptsim.crossbar.stages import Position
from eptsim.testing.factories import ArrayScaled, eptsim_crossbar


def with_changes(change):
    return lambda weight, card, seed: eptsim_crossbar(weight, card.override(change(card)), seed)


def scaled(key, factor):
    keys = [key] if "." in key else [f"{d}.{key}" for d in ("forward", "transpose")]
    return with_changes(lambda card: {k: factor * card.get(k) for k in keys if k in card.origins})


def dropped(*keys):
    return with_changes(lambda card: dict.fromkeys(keys))


class Timeless(ArrayScaled):
    """Reads everything at time 0."""

    def _at_zero(self, position):
        return position and Position(position.read, position.row)

    def read(self, x, *, range_policy=None, position=None, reference=None):
        return super().read(x, range_policy=range_policy, position=self._at_zero(position))

    def read_transpose(self, d, *, range_policy=None, position=None, reference=None):
        return super().read_transpose(d, range_policy=range_policy,
                                      position=self._at_zero(position))


def timeless(weight, card, seed):
    return Timeless(eptsim_crossbar(weight, card, seed), 1.0)


def always_bent(card):
    return {"array.coding": "amplitude"} if card.cell.iv.law != "linear" else {}


def never_bent(card):
    return {"array.coding": "pulse_width"} if card.cell.iv.law != "linear" else {}


LAWS = ("sinh", "cubic", "table")


@pytest.mark.parametrize(
    ("check", "broken"),
    [
        ("drift", scaled("cell.drift.nu", 1.001)),
        ("drift", scaled("cell.drift.t0_s", 1.01)),
        ("drift-spread", scaled("cell.drift.nu_sigma", 1.1)),
        ("drift-spread", dropped("cell.drift.nu_sigma")),
        (
            "drift-compensation",
            with_changes(lambda card: {"cell.drift.compensation": "none"}),
        ),
        ("retention", scaled("cell.retention.tau_s", 1.01)),
        ("retention", scaled("cell.retention.stretch", 0.99)),
        ("retention", with_changes(lambda card: {"cell.retention.level": 0.1})),
        ("flicker", scaled("cell.flicker.sigma", 1.1)),
        ("flicker", scaled("cell.flicker.fastest_s", 10.0)),
        ("flicker", timeless),
        ("wander-forward", scaled("offset_drift", 1.1)),
        ("wander-transpose", scaled("offset_drift", 0.9)),
        ("wander-forward", scaled("forward.offset_time_s", 1.3)),
        ("wander-transpose", timeless),
        *((f"iv-{law}", with_changes(always_bent)) for law in LAWS),
        *((f"iv-{law}", with_changes(never_bent)) for law in LAWS),
        ("iv-sinh", with_changes(lambda card: {"cell.iv.law": "cubic"})),
        ("iv-cubic", scaled("cell.iv.v0_v", 1.1)),
        ("iv-table", scaled("array.read_voltage_v", 0.9)),
    ],
)  # fmt: skip
def test_the_suite_finds(catches, check, broken):
    catches(f"moves/{check}", broken, eptsim_crossbar)
