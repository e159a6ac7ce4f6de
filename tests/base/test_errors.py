"""The messages that help with a typo, and what the errors can be caught as."""

import pytest

from eptsim.base.errors import (
    CardError,
    CheckpointError,
    EptsimError,
    InputError,
    ResultsError,
    SettleError,
    TextError,
    choice,
    nearest,
)


def test_nearest_names_the_closest():
    assert nearest("centered", ["one_sided", "centred", "frozen"]) == " Did you mean 'centred'?"
    assert nearest("xyz", ["one_sided", "centred"]) == ""
    assert nearest("x", []) == ""


def test_choice_returns_an_allowed_name():
    assert choice("held", ("fixed", "held"), "range_policy") == "held"


@pytest.mark.parametrize("value", ["hold", None, 3, ["held"]])
def test_choice_says_what_where_found_and_allowed(value):
    with pytest.raises(InputError) as caught:
        choice(value, iter(("fixed", "held")), "range_policy")
    message = str(caught.value)
    assert message.startswith(f"range_policy: found {value!r}, allowed: fixed, held.")
    assert ("Did you mean 'held'" in message) == (value in ("hold", ["held"]))


def test_every_error_can_be_caught_as_one_and_as_its_builtin_kind():
    for kind in (InputError, CardError, CheckpointError, TextError):
        assert issubclass(kind, EptsimError) and issubclass(kind, ValueError)
    assert issubclass(ResultsError, EptsimError) and issubclass(ResultsError, OSError)
    assert issubclass(SettleError, EptsimError) and issubclass(SettleError, RuntimeError)


def test_a_settle_error_holds_the_phases():
    assert SettleError("no", phases=("free", "nudged")).phases == ("free", "nudged")
    assert SettleError("no").phases == ()
