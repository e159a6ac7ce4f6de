"""The wheel holds all that an installed eptsim needs, and works away from the checkout."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    tree = folder / "tree"
    skip = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in ("eptsim", "devices"):
        shutil.copytree(ROOT / name, tree / name, ignore=skip)
    for name in ("setup.cfg", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*command, "-w", str(folder), str(tree)], check=True, cwd=folder)
    return next(folder.glob("*.whl"))


def test_the_wheel_holds_code_and_data(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    expected = {p.relative_to(ROOT).as_posix() for p in (ROOT / "eptsim").rglob("*.py")}
    expected |= {
        p.relative_to(ROOT).as_posix() for p in (ROOT / "eptsim/report").glob("templates/*")
    }
    expected |= {f"eptsim/devices/{p.name}" for p in (ROOT / "devices").iterdir() if p.is_file()}
    assert expected | {"eptsim/py.typed"} <= names
    assert not [name for name in names if name.startswith(("devices/", "tests/"))]


def test_an_installed_copy_finds_its_cards(wheel, tmp_path):
    zipfile.ZipFile(wheel).extractall(tmp_path)
    code = (
        "import eptsim.cards.loader as loader; print(loader.__file__);"
        "print(*(loader.load_card(name).name for name in loader.list_cards()))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    file, cards = ran.stdout.splitlines()
    assert Path(file).is_relative_to(tmp_path)
    assert cards.split() == sorted(path.stem for path in (ROOT / "devices").glob("*.toml"))
