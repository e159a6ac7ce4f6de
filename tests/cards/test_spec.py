"""A Spec says what an entry is; a Section takes nothing else."""

from __future__ import annotations

from typing import Annotated

import pytest
from pydantic import ValidationError

from eptsim.cards.spec import Section, Spec


class Part(Section):
    """One entry."""

    size: Annotated[float, Spec("Size.", high=2.0)] = 0.0


def test_a_section_is_strict_frozen_and_closed() -> None:
    part = Part(size=1.0)
    with pytest.raises(ValidationError):
        part.size = 2.0
    for bad in ({"size": "1"}, {"sizes": 1.0}, {"size": float("nan")}):
        with pytest.raises(ValidationError):
            Part.model_validate(bad)


def test_a_spec_is_ideal_dimensionless_and_between_0_and_1_unless_it_says_so() -> None:
    spec = Spec("Anything.")
    assert (spec.low, spec.high, spec.has_ideal) == (0.0, 1.0, True)
    assert spec.dimension == "dimensionless"
    assert not spec.x_dimension
