"""The suite finds flaws of another size, shared between cells, or drawn at every read."""

import numpy as np
import pytest
import torch

from eptsim.testing.factories import ArrayScaled, eptsim_crossbar


def with_changes(change):
    return lambda weight, card, seed: eptsim_crossbar(weight, card.override(change(card)), seed)


def scaled(key, factor):
    keys = [key] if "." in key else [f"{d}.{key}" for d in ("forward", "transpose")]
    return with_changes(lambda card: {k: factor * card.get(k) for k in keys})


def dropped(*keys):
    return with_changes(lambda card: dict.fromkeys(keys))


class Stored(ArrayScaled):
    """Reads a matrix that ``store`` makes of the weight."""

    def __init__(self, weight, card, seed):
        super().__init__(eptsim_crossbar(weight, card.override(self.clean(card)), seed), 1.0)
        sigma = card.cell.programming.sigma
        span = 1.0 - card.cell.g_min_s / card.cell.g_max_s
        noise = self.error(weight.double().numpy(), np.random.default_rng(seed))
        self.stored = weight + torch.from_numpy(2 * sigma / span * noise).to(weight.dtype)

    def clean(self, card):
        return {"cell.programming.sigma": 0.0}

    def read(self, x, **keywords):
        return x @ self.stored.T


class PerLevel(Stored):
    """One error for each level, not for each cell."""

    def error(self, weight, generator):
        levels, where = np.unique(weight, return_inverse=True)
        return generator.standard_normal(levels.size)[where].reshape(weight.shape)


class PerTile(Stored):
    """The same errors in every tile of 6 x 5."""

    def error(self, weight, generator):
        tile = generator.standard_normal((6, 5))
        return np.tile(tile, (weight.shape[0] // 6, weight.shape[1] // 5))


class PerChipType(Stored):
    """The same errors whatever the seed."""

    def error(self, weight, generator):
        return np.random.default_rng(0).standard_normal(weight.shape)


class OnePair(Stored):
    """The cells of a pair err together, half as much each."""

    def error(self, weight, generator):
        return 0.5 * generator.standard_normal(weight.shape)


class Redrawn(ArrayScaled):
    """Draws its offsets and gains at every read, by the number of the vector."""

    def __init__(self, weight, card, seed):
        super().__init__(eptsim_crossbar(weight, card, seed), 1.0)
        self.again = lambda: eptsim_crossbar(weight, card, seed + 7)

    def _rows(self, x, method, keywords):
        first = getattr(super(), method)(x[:1], **keywords)
        other = self.again()
        for direction in ("forward", "transpose"):
            other.hold_range(direction, self.held_range(direction))
        return torch.cat([first, getattr(other, method)(x[1:], **keywords)])

    def read(self, x, **keywords):
        return self._rows(x, "read", keywords)

    def read_transpose(self, d, **keywords):
        return self._rows(d, "read_transpose", keywords)


class Absolute(ArrayScaled):
    """Offsets in units that follow neither the weights nor the range."""

    def __init__(self, weight, card, seed):
        lines = ("forward.offset", "transpose.offset")
        super().__init__(eptsim_crossbar(weight, card.override(dict.fromkeys(lines)), seed), 1.0)
        sizes = {"forward": weight.shape[0], "transpose": weight.shape[1]}
        self.offsets = {
            d: 12 * card.direction(d).offset
            * torch.from_numpy(np.random.default_rng([seed, n]).standard_normal(sizes[d])).float()
            for n, d in enumerate(sizes)
        }  # fmt: skip

    def read(self, x, **keywords):
        return super().read(x, **keywords) + self.offsets["forward"]

    def read_transpose(self, d, **keywords):
        return super().read_transpose(d, **keywords) + self.offsets["transpose"]


class OneConverter(ArrayScaled):
    """One converter for both directions of a symmetric matrix: the same offset and gain."""

    def read_transpose(self, d, **keywords):
        return self.read(d, **keywords)


def one_converter(weight, card, seed):
    return OneConverter(eptsim_crossbar(weight, card, seed), 1.0)


def one_seed(weight, card, seed):
    return eptsim_crossbar(weight, card, 0)


def truncated(weight, card, seed):
    """Levels by truncation, not by rounding."""
    steps = (card.cell.levels or 2) - 1
    codes = steps if card.array.mapping == "differential" else steps / 2
    cut = torch.trunc(weight * codes) / codes
    return eptsim_crossbar(cut, card, seed)


BOTH_WAYS = [
    ("offset", scaled("offset", 1.1)),
    ("offset", Redrawn),
    ("offset", Absolute),
    ("offset", one_seed),
    ("gain", scaled("gain", 1.15)),
    ("gain", Redrawn),
]
SIGMA = "cell.programming.sigma"


@pytest.mark.parametrize(
    ("check", "broken"),
    [
        ("programming-constant", scaled(SIGMA, 1.1)),
        ("programming-polynomial", scaled(SIGMA, 1.3)),
        ("programming-polynomial", dropped("cell.programming.sigma_quadratic")),
        ("programming-polynomial", scaled("cell.programming.sigma_linear", 1.2)),
        ("programming-table", dropped("cell.programming.table")),
        ("programming-pair", OnePair),
        ("per-cell", PerLevel),
        ("per-cell", PerTile),
        ("per-cell", PerChipType),
        ("levels", with_changes(lambda card: {"cell.levels": (card.cell.levels or 2) + 1})),
        ("levels", truncated),
        ("slices", with_changes(lambda card: {"array.slices": 3})),
        ("verify", dropped("cell.programming.verify_tolerance")),
        ("verify", scaled("cell.programming.verify_tolerance", 1.2)),
        (
            "verify",
            with_changes(
                lambda card: {
                    "cell.programming.verify_rounds": card.cell.programming.verify_rounds + 1
                }
            ),
        ),
        ("stuck", scaled("cell.stuck.low", 1.4)),
        ("stuck", scaled("cell.stuck.high", 0.5)),
        ("stuck", scaled("cell.stuck.random", 1.2)),
        (
            "stuck",
            with_changes(
                lambda card: {"cell.stuck.low": card.cell.stuck.high,
                              "cell.stuck.high": card.cell.stuck.low}
            ),
        ),
        ("spread-g_min", scaled("cell.spread.g_min", 1.2)),
        ("spread-g_max", scaled("cell.spread.g_max", 0.8)),
        ("spread-g_max", dropped("cell.spread.g_max")),
        ("clipped", with_changes(lambda card: {"array.clip_percentile": 91.0})),
        ("own-converters", one_converter),
        *((f"{check}-{way}", broken) for check, broken in BOTH_WAYS
          for way in ("forward", "transpose")),
    ],
)  # fmt: skip
def test_the_suite_finds(catches, check, broken):
    catches(f"flaws/{check}", broken, eptsim_crossbar)
