"""The suite finds converters with other codes, ranges, clipping, or in another place."""

import pytest
import torch

from eptsim.testing.factories import ArrayScaled, eptsim_crossbar


def with_changes(change):
    """A factory that takes ``change(card)`` for the card's entries."""
    return lambda weight, card, seed: eptsim_crossbar(weight, card.override(change(card)), seed)


def other(key, alter):
    """Both directions' ``key`` altered, where it is set."""

    def change(card):
        found = {f"{d}.{key}": card.get(f"{d}.{key}") for d in ("forward", "transpose")}
        return {k: alter(v) for k, v in found.items() if v is not None}

    return with_changes(change)


def one_tile(card):
    return {"array.rows": None, "array.columns": None}


class OneRange(ArrayScaled):
    """Ignores the range held."""

    def read(self, x, *, range_policy=None, position=None, reference=None):
        policy = "fixed" if range_policy in ("held", "per_vector") else range_policy
        return super().read(x, range_policy=policy, position=position, reference=reference)

    def read_transpose(self, d, *, range_policy=None, position=None, reference=None):
        policy = "fixed" if range_policy in ("held", "per_vector") else range_policy
        return super().read_transpose(d, range_policy=policy, position=position,
                                      reference=reference)


class Forgetful(ArrayScaled):
    """Takes no notice of a reference."""

    def read(self, x, *, range_policy=None, position=None, reference=None):
        return super().read(x, range_policy=range_policy, position=position)

    def read_transpose(self, d, *, range_policy=None, position=None, reference=None):
        return super().read_transpose(d, range_policy=range_policy, position=position)


class ScaleAfterwards(ArrayScaled):
    """The full scale counts in the units of the weights, not of the largest one."""

    def __init__(self, weight, card, seed):
        grown = torch.block_diag(weight, weight.new_full((1, 1), 10.0))
        super().__init__(eptsim_crossbar(grown, card, seed), 1.0)
        self.shape = tuple(weight.shape)

    def read(self, x, *, range_policy=None, position=None, reference=None):
        padded = torch.nn.functional.pad(x, (0, 1))
        return super().read(padded, range_policy=range_policy, position=position)[..., :-1]

    def read_transpose(self, d, *, range_policy=None, position=None, reference=None):
        padded = torch.nn.functional.pad(d, (0, 1))
        return super().read_transpose(padded, range_policy=range_policy)[..., :-1]


class Silent(ArrayScaled):
    """Says that it is neither noisy nor has any codes."""

    def stage(self, direction):
        return eptsim_crossbar(torch.ones(1, 1), self.ideal, 0).stage(direction)


def silent(weight, card, seed):
    array = Silent(eptsim_crossbar(weight, card, seed), 1.0)
    array.ideal = card.override({
        f"{d}.{key}": None
        for d in ("forward", "transpose")
        for key in ("dac_bits", "adc_bits", "output_range", "line_noise")
    })
    return array


def wrapped(kind):
    return lambda weight, card, seed: kind(eptsim_crossbar(weight, card, seed), 1.0)


ONE_MORE_BIT, ONE_BIT_LESS = (lambda bits: bits + 1), (lambda bits: max(bits - 1, 1))
BROKEN = [
    ("dac-codes", other("dac_bits", ONE_MORE_BIT)),
    ("dac-codes", other("dac_bits", ONE_BIT_LESS)),
    ("dac-codes", other("dac_bits", lambda bits: None)),
    ("dac-codes", other("input_range", lambda top: None)),
    ("dac-per-vector", other("input_range", lambda top: None)),
    ("dac-per-vector", wrapped(OneRange)),
    ("dac-held", wrapped(OneRange)),
    ("adc-codes", other("adc_bits", ONE_MORE_BIT)),
    ("adc-codes", other("output_range", lambda top: None)),
    ("clipping", other("input_range", lambda top: None)),
    ("clipping", other("output_range", lambda top: 2 * top)),
    ("full-scale", ScaleAfterwards),
    ("tiles", with_changes(one_tile)),
    ("slices", with_changes(lambda card: {"array.slices": 3})),
    ("slices", other("adc_bits", lambda bits: None)),
    ("scaling-tile", with_changes(lambda card: {"array.scaling": "array"})),
    ("dac-held", other("input_range", lambda top: None)),
    ("zero-reference", wrapped(Forgetful)),
]


@pytest.mark.parametrize("direction", ["forward", "transpose"])
@pytest.mark.parametrize(("check", "broken"), BROKEN)
def test_the_suite_finds(catches, check, broken, direction):
    catches(f"converters/{check}-{direction}", broken, eptsim_crossbar)


def test_one_scale_for_all_outputs_is_found(catches):
    one_scale = with_changes(lambda card: {"array.scaling": "array"})
    catches("converters/scaling-column", one_scale, eptsim_crossbar)


def test_what_the_settle_loop_is_told_wrongly_is_found(catches):
    catches("converters/stage", silent, eptsim_crossbar)


