"""Advice on versions that do not belong together."""

import pytest

from eptsim.base.versions import aihwkit_advice, matches


@pytest.mark.parametrize(
    ("version", "release", "same"),
    [
        ("2.10.0", "2.10", True),
        ("2.10.0+cu128", "2.10", True),
        ("2.1.0", "2.10", False),
        ("2.10.1", "2.1", False),
        ("2.100", "2.10", False),
    ],
)
def test_matches(version, release, same):
    assert matches(version, release) is same


def test_a_mismatch_names_both_and_the_release_needed():
    advice = aihwkit_advice("1.1.0", "2.13.0+cpu")
    assert "aihwkit 1.1.0 is built against torch 2.10 and only that, found 2.13.0+cpu" in advice


def test_a_match_that_fails_is_a_damaged_install():
    assert "damaged" in aihwkit_advice("1.1.0", "2.10.0")


def test_an_unknown_release_names_the_tested_pair():
    assert "tested with aihwkit 1.1.0 and torch 2.10" in aihwkit_advice("1.2.0", "2.14.0")
