import re

import pytest
import torch

from eptsim.base.errors import CardError
from eptsim.cards import load_card
from eptsim.crossbar.crossbar import Crossbar
from eptsim.testing.factories import (
    AIHWKIT_ENTRIES,
    ArrayScaled,
    aihwkit_config,
    aihwkit_crossbar,
    eptsim_crossbar,
)
from eptsim.testing.knobs import PROBES

IDEAL = load_card("ideal")
W = torch.randn(5, 7, generator=torch.Generator().manual_seed(0))


def test_eptsim_factory():
    array = eptsim_crossbar(W, IDEAL.override({"cell.levels": 4}), 3)
    assert isinstance(array, Crossbar)
    assert (array.seed, array.card.cell.levels) == (3, 4)


@pytest.mark.parametrize("key", sorted(set(PROBES) - AIHWKIT_ENTRIES))
def test_what_aihwkit_cannot_express_is_refused_by_name(key):
    value, needs = PROBES[key]
    with pytest.raises(CardError, match="|".join(map(re.escape, [key, *needs]))):
        aihwkit_crossbar(W, IDEAL.override({**needs, key: value}), 0)


def test_other_read_noise_than_constant_is_refused():
    changes = {"cell.read_noise.law": "proportional", "cell.read_noise.sigma": 0.1}
    with pytest.raises(CardError, match=r"cell\.read_noise\.law"):
        aihwkit_config(IDEAL.override(changes))


def test_the_configuration_says_what_the_card_says():
    card = IDEAL.override({
        "forward.dac_bits": 6, "forward.adc_bits": 9, "forward.input_range": 1.5,
        "transpose.output_range": 3.0, "transpose.line_noise": 0.01, "array.rows": 100,
        "cell.read_noise.law": "constant", "cell.read_noise.sigma": 0.1, "cell.g_min_s": 5e-6,
    })  # fmt: skip
    config = aihwkit_config(card)
    forward, backward = config.forward, config.backward
    assert (forward.inp_res, forward.out_res) == (pytest.approx(1 / 62), pytest.approx(1 / 510))
    assert (forward.inp_bound, forward.nm_thres, forward.out_bound) == (1.0, 1.5, 12.0)
    assert (backward.out_bound, backward.out_noise) == (3.0, pytest.approx(0.03))
    assert (backward.inp_res, backward.out_res, backward.inp_bound) == (-1.0, -1.0, 0.0)
    assert forward.w_noise == pytest.approx(0.2 * 2**0.5)
    assert (config.mapping.max_input_size, config.mapping.max_output_size) == (100, 0)


def test_one_scale_for_the_array():
    card = IDEAL.override({"forward.dac_bits": 5})
    inside, plain = Crossbar(W / 4, card), Crossbar(W / 4, card)
    array = ArrayScaled(inside, 4.0)
    x, d = torch.ones(2, 7), torch.ones(2, 5)
    assert torch.equal(array.read(x), 4 * plain.read(x))
    assert torch.equal(array.read_transpose(d), 4 * plain.read_transpose(d))
    assert torch.equal(array.weight(), 4 * plain.weight())
    array.hold_range("forward", 2.0)
    assert array.held_range("forward") == inside.held_range("forward") == 2.0
    assert array.stage("forward") is inside.stage("forward")
    assert array.segments("forward") == 1
    assert array.zero_reference("forward", 2).shape == (1, 5)
    assert (array.shape, array.dtype, array.path) == ((5, 7), W.dtype, "crossbar")
