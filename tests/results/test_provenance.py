"""Versions and the commit; nothing that names the machine."""

from __future__ import annotations

import getpass
import socket
import subprocess
from pathlib import Path

import numpy as np
import pytest

from eptsim.results import provenance
from eptsim.results.provenance import collect_provenance, git_commit


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    command = ["git", *identity, "-C", str(folder), *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q")
    (tmp_path / "a").write_text("1")
    git(tmp_path, "add", "a")
    git(tmp_path, "commit", "-qm", "one")
    return tmp_path


def test_versions() -> None:
    found = collect_provenance()
    assert found["numpy_version"] == np.__version__
    assert {"eptsim_version", "torch_version", "python_version"} <= set(found)
    assert all(isinstance(value, str) and value for value in found.values())


def test_nothing_names_the_machine() -> None:
    text = " ".join(collect_provenance().values())
    assert "/" not in text and str(Path.home()) not in text
    assert socket.gethostname() not in text.split() and getpass.getuser() not in text.split()


def test_commit_of_a_clean_and_a_changed_checkout(checkout: Path) -> None:
    head = git(checkout, "rev-parse", "HEAD")
    (checkout / "untracked").write_text("x")
    assert git_commit(checkout) == head
    (checkout / "a").write_text("2")
    assert git_commit(checkout) == f"{head}-dirty"


def test_no_commit_below_the_top_of_a_checkout(checkout: Path) -> None:
    (checkout / "site-packages").mkdir()
    assert git_commit(checkout / "site-packages") is None


def test_no_commit_without_checkout_history_folder_or_git(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert git_commit(tmp_path) is None
    assert git_commit(tmp_path / "none") is None
    git(tmp_path, "init", "-q")
    assert git_commit(tmp_path) is None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert git_commit(tmp_path) is None


def test_git_variables_of_the_caller_are_ignored(
    checkout: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", str(checkout / ".git"))
    assert git_commit(tmp_path_factory.mktemp("elsewhere")) is None


def test_package_that_is_not_installed() -> None:
    assert provenance._version("no-such-package-here") == "unknown"
