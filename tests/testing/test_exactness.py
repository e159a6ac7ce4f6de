"""The suite finds reads that are not exact, and arrays that share memory with their caller."""

import pytest

from eptsim.testing.factories import ArrayScaled, aihwkit_crossbar, eptsim_crossbar


class Leaking(ArrayScaled):
    """Loses 1e-5 of every input."""

    def read(self, x, **keywords):
        return super().read(x, **keywords) * (1 - 1e-5)


class OneVectorOnly(ArrayScaled):
    def read(self, x, **keywords):
        return super().read(x.reshape(-1, x.shape[-1]), **keywords)


class Biased(ArrayScaled):
    def read(self, x, **keywords):
        return super().read(x, **keywords) + 1e-30


class Greedy(ArrayScaled):
    """Uses its input as a work space."""

    def read(self, x, **keywords):
        y = super().read(x, **keywords)
        x.mul_(2.0)
        return y


class Lazy(ArrayScaled):
    """Keeps the weight that it was given."""

    def __init__(self, inside, scale, given):
        super().__init__(inside, scale)
        self.given = given

    def read(self, x, **keywords):
        return x @ self.given.T


class OtherWeight(ArrayScaled):
    def weight(self):
        return super().weight().flip(0)


class View(ArrayScaled):
    kept = None

    def weight(self):
        self.kept = super().weight() if self.kept is None else self.kept
        return self.kept


def wrapped(kind):
    return lambda weight, card, seed: kind(eptsim_crossbar(weight, card, seed), 1.0)


@pytest.mark.parametrize(
    ("check", "broken"),
    [
        ("exactness/shapes-forward", wrapped(Leaking)),
        ("exactness/tiles-forward", wrapped(Leaking)),
        ("exactness/sizes-forward", wrapped(Leaking)),
        ("exactness/mapping-offset", wrapped(Leaking)),
        ("exactness/scaling-column", wrapped(Leaking)),
        ("exactness/leading-dimensions-forward", wrapped(OneVectorOnly)),
        ("exactness/zero-forward", wrapped(Biased)),
        ("exactness/copies", wrapped(Greedy)),
        ("exactness/copies", lambda w, card, seed: Lazy(eptsim_crossbar(w, card, seed), 1.0, w)),
        ("exactness/weight", wrapped(OtherWeight)),
        ("exactness/weight", wrapped(View)),
    ],
)
def test_the_suite_finds(catches, check, broken):
    catches(check, broken, eptsim_crossbar)


def test_a_scale_per_tile_that_is_lost_is_found(catches):
    def array_scaled(weight, card, seed):
        return eptsim_crossbar(weight, card.override({"array.clip_percentile": 90.0}), seed)

    for name in ("array", "tile", "column"):
        catches(f"exactness/scaling-{name}", array_scaled, eptsim_crossbar)


def test_aihwkit_refuses_other_mappings(run_one):
    assert run_one("exactness/mapping-offset", aihwkit_crossbar).status == "refused"
