"""The suite finds crossbars that answer what they should refuse."""

import pytest
import torch

from eptsim.cards import load_card
from eptsim.testing.factories import ArrayScaled, eptsim_crossbar


class Lenient(ArrayScaled):
    """Turns NaN and infinity into numbers, other dtypes into its own, and cuts to its length."""

    def _fit(self, x, inner):
        x = x if isinstance(x, torch.Tensor) else torch.ones(2, inner)
        x = (x.real if x.is_complex() else x).to(self.dtype)
        x = torch.nan_to_num(x.reshape(-1, x.shape[-1] if x.dim() else 1))
        return torch.nn.functional.pad(x, (0, inner))[:, :inner]

    def read(self, x, **keywords):
        return super().read(self._fit(x, self.shape[1]), **keywords)

    def read_transpose(self, d, **keywords):
        return super().read_transpose(self._fit(d, self.shape[0]), **keywords)


class Guessing(ArrayScaled):
    """Reads with its own policy where it does not know the one asked for."""

    def read(self, x, *, range_policy=None, position=None, reference=None):
        return super().read(x, position=position, reference=reference)


class NotANumber(ArrayScaled):
    """Answers with NaN where it should refuse."""

    def read(self, x, **keywords):
        try:
            return super().read(x, **keywords)
        except ValueError:
            return torch.full((*x.shape[:-1], self.shape[0]), torch.nan)

    def read_transpose(self, d, **keywords):
        try:
            return super().read_transpose(d, **keywords)
        except ValueError:
            return torch.full((*d.shape[:-1], self.shape[1]), torch.nan)


class AnyRange(ArrayScaled):
    def hold_range(self, direction, value):
        super().hold_range(direction, value if value and 0 < value < 1e9 else 1.0)


def wrapped(kind):
    return lambda weight, card, seed: kind(eptsim_crossbar(weight, card, seed), 1.0)


def any_weight(weight, card, seed):
    fitting = torch.nan_to_num(torch.atleast_2d(weight).real.float())
    return eptsim_crossbar(fitting if fitting.numel() else torch.ones(1, 1), card, seed)


def any_seed(weight, card, seed):
    return eptsim_crossbar(weight, card, seed if isinstance(seed, int) and seed >= 0 else 0)


@pytest.mark.parametrize(
    ("check", "broken"),
    [
        *(
            (f"{check}-{direction}", wrapped(Lenient))
            for check in ("not-finite", "shape", "kind")
            for direction in ("forward", "transpose")
        ),
        ("not-finite-forward", wrapped(NotANumber)),
        ("overflow-forward", wrapped(NotANumber)),
        ("overflow-transpose", wrapped(NotANumber)),
        ("range-policy", wrapped(Guessing)),
        ("range-policy", wrapped(AnyRange)),
        ("weight", any_weight),
        ("seed", any_seed),
    ],
)
def test_the_suite_finds(catches, check, broken):
    catches(f"refusals/{check}", broken, eptsim_crossbar)


def test_zero_bits_that_mean_ideal_are_found(run_one, monkeypatch):
    card = type(load_card("ideal"))
    true_override = card.override
    monkeypatch.setattr(
        card, "override",
        lambda self, changes: true_override(self, {k: v or None for k, v in changes.items()}),
    )  # fmt: skip
    assert run_one("refusals/zero-bits", eptsim_crossbar).status == "failed"
