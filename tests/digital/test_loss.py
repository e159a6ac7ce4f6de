"""Summed cross-entropy, ignored positions, refusals."""

import pytest
import torch

from eptsim.base.errors import InputError
from eptsim.digital.loss import IGNORE_INDEX, check_ids, count_targets, cross_entropy_sum


def _case() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(2, 5, 7, generator=generator, dtype=torch.float64)
    targets = torch.randint(0, 7, (2, 5), generator=generator)
    return logits, targets


def test_is_the_sum_of_negative_log_probabilities() -> None:
    logits, targets = _case()
    logs = torch.log_softmax(logits, -1).gather(-1, targets[..., None])
    assert cross_entropy_sum(logits, targets).item() == pytest.approx(-logs.sum().item(), rel=1e-14)


def test_ignored_positions_count_for_nothing() -> None:
    logits, targets = _case()
    targets[0, 1:] = IGNORE_INDEX
    logits.requires_grad_()
    total = cross_entropy_sum(logits, targets)
    (grad,) = torch.autograd.grad(total, logits)
    assert count_targets(targets) == 6
    assert torch.equal(grad[0, 1:], torch.zeros(4, 7, dtype=torch.float64))
    assert bool((grad[0, 0] != 0).all())


def test_all_ignored_is_zero_not_nan() -> None:
    logits, targets = _case()
    assert cross_entropy_sum(logits, torch.full_like(targets, IGNORE_INDEX)).item() == 0.0


def test_force_on_a_token_does_not_depend_on_the_batch() -> None:
    logits, targets = _case()
    twice = torch.cat((logits, logits)).requires_grad_()
    once = logits.clone().requires_grad_()
    (one,) = torch.autograd.grad(cross_entropy_sum(once, targets), once)
    (two,) = torch.autograd.grad(cross_entropy_sum(twice, targets.repeat(2, 1)), twice)
    assert torch.equal(two, one.repeat(2, 1, 1))


def test_accepts_flat_and_narrow_targets() -> None:
    logits, targets = _case()
    flat = cross_entropy_sum(logits.view(10, 7), targets.view(10).to(torch.int16))
    assert torch.equal(flat, cross_entropy_sum(logits, targets))


def test_refuses_by_value_and_position() -> None:
    logits, targets = _case()
    targets[1, 3] = 7
    with pytest.raises(InputError, match=r"targets: found 7 at position \(1, 3\), allowed: 0 to 6"):
        cross_entropy_sum(logits, targets)
    targets[1, 3] = -1
    with pytest.raises(InputError, match=r"found -1 at position \(1, 3\).*-100 to ignore"):
        cross_entropy_sum(logits, targets)
    with pytest.raises(InputError, match=r"found shape \(2, 4\), allowed: \(2, 5\)"):
        cross_entropy_sum(logits, targets[:, :4])
    with pytest.raises(InputError, match=r"found dtype torch.float32"):
        cross_entropy_sum(logits, targets.float())


def test_check_ids_refuses_the_ignore_index_unless_asked() -> None:
    ids = torch.tensor([3, IGNORE_INDEX])
    check_ids(ids, 4, "ids", ignore=True)
    with pytest.raises(InputError, match=r"ids: found -100 at position \(1,\)"):
        check_ids(ids, 4, "ids")
    with pytest.raises(InputError, match=r"torch.bool"):
        check_ids(ids > 0, 4, "ids")
