"""What ``import eptsim`` offers, and that the README's example runs as it stands."""

import re
from importlib.metadata import version
from pathlib import Path

import pytest

import eptsim

README = Path(__file__).resolve().parents[1] / "README.md"


def test_every_public_name_is_there():
    assert [name for name in eptsim.__all__ if getattr(eptsim, name, None) is None] == []
    assert sorted(set(eptsim.__all__)) == sorted(eptsim.__all__)
    assert set(eptsim.__all__) <= set(dir(eptsim))


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = eptsim.no_such_name


def test_the_version_is_the_installed_one():
    assert eptsim.__version__ == version("eptsim")


def test_the_example_of_the_readme_runs(capsys):
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    exec(compile(code, str(README), "exec"), {})
    assert "all arrays" in capsys.readouterr().out
