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


@pytest.mark.parametrize("page", ["README.md", "docs/aihwkit.md", "docs/device_layer.md"])
def test_the_examples_run_one_after_the_other(capsys, monkeypatch, tmp_path, page):
    monkeypatch.chdir(tmp_path)
    path = README.parent / page
    names: dict[str, object] = {}
    for code in re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL):
        exec(compile(code, str(path), "exec"), names)
    assert capsys.readouterr().out
