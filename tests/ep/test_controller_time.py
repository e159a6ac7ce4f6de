"""What moves between the phases is what no reference cancels: wander against the phase interval."""

from itertools import pairwise

import pytest
import torch

import eptsim
from eptsim.base.errors import SettleError

TAU = 1.0
SETTINGS = {"measurement": "one_sided", "reference": "line", "beta": 0.01, "sweeps": 3}


@pytest.fixture(scope="module")
def at_interval(network, ideal, gradient_on, backprop, error):
    """Error of gradients whose transpose offsets wander, and what the wander alone adds to it."""

    def measure(
        interval_s: float, drift: float = 1e-4, offset: float = 0.02
    ) -> tuple[float, float]:
        card = ideal.override(
            {
                "transpose.offset": offset,
                "transpose.offset_drift": drift,
                "transpose.offset_time_s": TAU,
                "clock.pass_s": 1e-9,
                "clock.phase_interval_s": interval_s,
            }
        )
        still = card.override({"transpose.offset_drift": 0.0})
        whole, added = [], []
        for seed in range(4):
            found = gradient_on(network, card, seed=seed, **SETTINGS)
            whole.append(error(found, backprop))
            added.append(error(found, gradient_on(network, still, seed=seed, **SETTINGS)))
        return sum(whole) / len(whole), sum(added) / len(added)

    return measure


def test_phases_much_closer_than_the_correlation_time_cancel_the_offset(at_interval):
    """Down to the beta bias of a chip without offsets, wander and static offset alike."""
    whole, _ = at_interval(1e-9)
    assert whole == pytest.approx(at_interval(0.0, drift=0.0, offset=0.0)[0], rel=0.02)


def test_the_error_grows_as_the_root_of_the_interval_and_stops_at_the_correlation_time(at_interval):
    """Standard deviation of what moved: drift sqrt(2 (1 - exp(-t / tau)))."""
    times = (1e-4, 4e-4, 16e-4)
    short = [at_interval(t)[1] for t in times]
    for first, second in pairwise(short):
        assert second / first == pytest.approx(2.0, rel=0.25)
    long = [at_interval(t)[1] for t in (20.0, 2000.0)]
    assert long[1] / long[0] == pytest.approx(1.0, rel=0.3)
    # 1 - exp(-20) over 1 - exp(-16e-4)
    assert long[0] / short[-1] == pytest.approx((1 / 16e-4) ** 0.5, rel=0.3)


def test_a_reference_once_taken_ages_with_the_clock(network, ideal):
    card = ideal.override({"transpose.offset_drift": 1e-3, "transpose.offset_time_s": TAU})
    chip = eptsim.Chip(network.model, card)

    def read():
        return torch.cat([line.flatten() for line in chip.line_references(1, "free").values()])

    lines, again = read(), read()
    chip.wait(100.0)
    later, full = read(), 1e-3 * card.transpose.full_scale
    error = 5 / (2 * lines.numel()) ** 0.5  # of a standard deviation, relative
    # passes of 10 us: sqrt(2 x 1e-5); independent after 100 s: sqrt 2
    assert float((again - lines).std() / full) == pytest.approx((2e-5) ** 0.5, rel=error)
    assert float((later - lines).std() / full) == pytest.approx(2**0.5, rel=error)


@pytest.mark.parametrize("name", eptsim.list_cards())
def test_every_shipped_card_gives_a_gradient_or_says_why_not(make_network, name):
    network = make_network(blocks=2, batch=1, positions=8)
    chip = eptsim.Chip(network.model, eptsim.load_card(name))
    controller = eptsim.EPController(chip, beta=0.1, measurement="centred", reference="line")
    try:
        found = controller.gradient(network.tokens, network.targets)
    except SettleError as failure:
        assert "No gradient" in str(failure)
        assert failure.phases
        return
    assert all(bool(grad.isfinite().all()) for grad in found.grads.values())
    assert all(phase.settled for phase in found.phases)
