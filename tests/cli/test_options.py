"""Settings from a file and from --set, and what is said about a wrong one."""

from typing import Literal

import pytest
import torch
from pydantic import BaseModel, ConfigDict, Field

from eptsim.base.errors import InputError
from eptsim.cli.options import (
    build,
    check_keys,
    parse_assignment,
    parse_value,
    read_settings,
    resolve_device,
    setting_names,
)


class Ep(BaseModel):
    model_config = ConfigDict(extra="forbid")
    beta: float = Field(0.01, gt=0)
    reference: Literal["none", "weight", "line"] = "none"
    sweeps: int | None = None


class Run(BaseModel):
    model_config = ConfigDict(extra="forbid")
    seed: int = 0
    betas: list[float] = [0.1]
    ep: Ep = Ep()
    card: dict[str, float | str | None] = {}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("-1e-3", -1e-3),
        ("true", True),
        ("pcm_mushroom", "pcm_mushroom"),
        ("line+weight", "line+weight"),
        ('"none"', "none"),
        ("null", None),
        ("None", None),
        ("[1, 2.5]", [1, 2.5]),
        (" word ", "word"),
        ("runs/a.toml", "runs/a.toml"),
    ],
)
def test_values(text, value):
    found = parse_value(text)
    assert found == value and type(found) is type(value)


@pytest.mark.parametrize("text", ["", "[1, 2", '"open', "{a=", "3\nb = 4"])
def test_values_that_cannot_be_read(text):
    with pytest.raises(InputError, match="--set"):
        parse_value(text)


def test_a_value_may_hold_an_equals_sign():
    assert parse_assignment("a.b = x=y") == ("a.b", "x=y")


@pytest.mark.parametrize("text", ["a.b", "=3", "a..b=3", ".a=3", ""])
def test_assignments_that_cannot_be_read(text):
    with pytest.raises(InputError, match="KEY=VALUE"):
        parse_assignment(text)


def test_the_command_line_wins_over_the_file(tmp_path):
    file = tmp_path / "run.toml"
    file.write_text(
        'seed = 1\n[ep]\nbeta = 0.5\n[card.transpose]\noffset = 0.1\n[card]\n"a.b" = 2\n'
    )
    found = read_settings(file, ["ep.beta=0.25", "ep.beta=0.125"])
    assert found == {"seed": 1, "ep.beta": 0.125, "card.transpose.offset": 0.1, "card.a.b": 2}


def test_no_settings():
    assert read_settings(None, None) == {}


def test_a_key_that_is_also_a_group_is_refused():
    with pytest.raises(InputError, match="give one of them"):
        read_settings(None, ["ep=3", "ep.beta=1"])


def test_a_missing_file(tmp_path):
    with pytest.raises(InputError, match=r"nothing\.toml: cannot be read: No such file"):
        read_settings(tmp_path / "nothing.toml")


@pytest.mark.parametrize("content", [b"seed = \n", b"\xff"])
def test_a_file_that_is_no_toml(tmp_path, content):
    (tmp_path / "bad.toml").write_bytes(content)
    with pytest.raises(InputError, match="not valid TOML"):
        read_settings(tmp_path / "bad.toml")


def test_names_of_settings():
    assert setting_names(Run) == (
        "seed",
        "betas",
        "ep.beta",
        "ep.reference",
        "ep.sweeps",
        "card.*",
    )


def test_an_unknown_key_is_answered_with_the_nearest():
    with pytest.raises(InputError, match=r"'ep\.bta'.*Did you mean 'ep\.beta'"):
        build(Run, {"ep.bta": 1})


@pytest.mark.parametrize("key", ["ep", "card", "seed.x", "cards.offset"])
def test_keys_of_the_wrong_depth_are_unknown(key):
    with pytest.raises(InputError, match="no such setting"):
        check_keys({key: 1}, setting_names(Run))


def test_build():
    made = build(
        Run, {"seed": 3, "ep.beta": 0.5, "card.transpose.offset": 0.02, "card.node.offset": None}
    )
    assert (made.seed, made.ep.beta, made.betas) == (3, 0.5, [0.1])
    assert made.card == {"transpose.offset": 0.02, "node.offset": None}


def test_none_is_the_word_where_no_none_is_allowed():
    made = build(Run, {"ep.reference": None, "ep.sweeps": None})
    assert (made.ep.reference, made.ep.sweeps) == ("none", None)


def test_every_wrong_value_is_named():
    with pytest.raises(InputError) as caught:
        build(Run, {"seed": "x", "ep.beta": -1, "betas": ["y", "z"]})
    message = str(caught.value)
    assert message.count("setting '") == 3
    assert "setting 'ep.beta': found -1, input should be greater than 0" in message


def test_a_none_that_is_not_allowed_is_named():
    with pytest.raises(InputError, match="'seed': found None"):
        build(Run, {"seed": None})


def test_devices():
    assert resolve_device("cpu") == torch.device("cpu")
    assert resolve_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")


@pytest.mark.parametrize("name", ["gpu", "meta", "", "cuda:64"])
def test_devices_that_are_not_there(name):
    with pytest.raises(InputError, match="--device"):
        resolve_device(name)
