"""The suite finds noise of another size, law, mean or memory."""

import numpy as np
import pytest
import torch

from eptsim.testing.factories import ArrayScaled, eptsim_crossbar


def with_changes(change):
    return lambda weight, card, seed: eptsim_crossbar(weight, card.override(change(card)), seed)


def scaled(key, factor):
    """An entry of both directions, or of the cells, taken ``factor`` times too large."""
    keys = [key] if "." in key else [f"{d}.{key}" for d in ("forward", "transpose")]
    return with_changes(lambda card: {k: factor * card.get(k) for k in keys})


class OwnNoise(ArrayScaled):
    """A noiseless crossbar, and line noise drawn here: standard normals unless overridden."""

    def __init__(self, weight, card, seed):
        lines = ("forward.line_noise", "transpose.line_noise")
        clean = eptsim_crossbar(weight, card.override(dict.fromkeys(lines)), seed)
        super().__init__(clean, 1.0)
        self.sigma = {
            d: card.direction(d).line_noise * card.direction(d).full_scale
            for d in ("forward", "transpose")
        }
        self.generator = np.random.default_rng(seed)
        self.row = 0

    def draw(self, rows, lines):
        return self.generator.standard_normal((rows, lines))

    def _noise(self, y, direction):
        noise = self.sigma[direction] * self.draw(*y.shape)
        self.row += y.shape[0]
        return y + torch.from_numpy(noise).to(y.dtype)

    def read(self, x, **keywords):
        return self._noise(super().read(x, **keywords), "forward")

    def read_transpose(self, d, **keywords):
        return self._noise(super().read_transpose(d, **keywords), "transpose")


class Table(OwnNoise):
    """Draws from a table of 32,768 vectors, again and again."""

    def draw(self, rows, lines):
        table = np.random.default_rng(1).standard_normal((32_768, lines))
        return table[(self.row + np.arange(rows)) % 32_768]


class Biased(OwnNoise):
    """Half a percent of sigma away from zero."""

    def draw(self, rows, lines):
        return super().draw(rows, lines) + 0.005


class Uniform(OwnNoise):
    """The right mean and variance, and the wrong law."""

    def draw(self, rows, lines):
        return self.generator.uniform(-(3**0.5), 3**0.5, (rows, lines))


class Shared(OwnNoise):
    """One draw for all lines."""

    def draw(self, rows, lines):
        return np.repeat(super().draw(rows, 1), lines, axis=1)


class Sticky(OwnNoise):
    """Every vector remembers some of the noise of the one before."""

    def draw(self, rows, lines):
        fresh = super().draw(rows + 1, lines)
        return (fresh[1:] + 0.1 * fresh[:-1]) / 1.01**0.5


class SameSeed(OwnNoise):
    """Every chip draws the same."""

    def __init__(self, weight, card, seed):
        super().__init__(weight, card, 0)


class SameDirections(OwnNoise):
    """Both directions draw the same."""

    def draw(self, rows, lines):
        return np.random.default_rng(rows).standard_normal((rows, 16))[:, :lines]


class AfterTheGain(OwnNoise):
    """The noise of a line does not pass its gain: the base class has it so already."""


class PerArray(OwnNoise):
    """One draw per read, however many tiles take part: half the variance of two."""


CELLS = "cell.read_noise.sigma"


@pytest.mark.parametrize(
    ("check", "broken"),
    [
        ("line-forward", scaled("line_noise", 1.1)),
        ("line-transpose", scaled("line_noise", 0.9)),
        ("line-forward", Uniform),
        ("line-scale-forward", PerArray),
        ("line-scale-transpose", PerArray),
        ("independent", Shared),
        ("independent", Sticky),
        ("independent", SameSeed),
        ("independent", SameDirections),
        ("independent-tiles-forward", PerArray),
        ("independent-tiles-transpose", PerArray),
        ("before-gain-forward", AfterTheGain),
        ("before-gain-transpose", AfterTheGain),
        ("million", Table),
        ("million", Biased),
        *(
            (f"cells-{law}-{mapping}", scaled(CELLS, 1.05))
            for law in ("constant", "proportional", "sqrt")
            for mapping in ("differential", "reference_column", "offset")
        ),
        (
            "cells-proportional-differential",
            with_changes(lambda card: {"cell.read_noise.law": "sqrt"}),
        ),
        (
            "cells-sqrt-offset",
            with_changes(lambda card: {"cell.read_noise.law": "constant"}),
        ),
        (
            "cells-constant-reference_column",
            with_changes(lambda card: {"array.mapping": "offset"}),
        ),
        ("reference-column", with_changes(lambda card: {"array.mapping": "offset"})),
        ("reference-column", with_changes(lambda card: {"array.columns": None})),
    ],
)  # fmt: skip
def test_the_suite_finds(catches, check, broken):
    catches(f"noise/{check}", broken, eptsim_crossbar)


def test_a_table_read_wrongly_is_found(catches):
    def steps(card):
        return {"cell.read_noise.table": None, "cell.read_noise.law": "constant", CELLS: 0.02}

    for mapping in ("differential", "reference_column", "offset"):
        catches(f"noise/cells-table-{mapping}", with_changes(steps), eptsim_crossbar)


class Humming(ArrayScaled):
    """Has the noise of its cells also where nothing drives them."""

    generator = torch.Generator().manual_seed(0)

    def read(self, x, **keywords):
        y = super().read(x, **keywords)
        silent = (x == 0).all(dim=-1, keepdim=True)
        return y + 1e-3 * silent * torch.randn(y.shape, generator=self.generator)


def test_cells_that_hum_without_drive_are_found(catches):
    def humming(weight, card, seed):
        return Humming(eptsim_crossbar(weight, card, seed), 1.0)

    catches("noise/cells-constant-differential", humming, eptsim_crossbar)


def test_own_noise_is_sound_but_for_its_flaw(run_one):
    """The base class of the broken ones passes what they fail."""
    for check in ("line-forward", "independent", "million"):
        row = run_one(f"noise/{check}", OwnNoise)
        assert row.status == "passed", row.detail
