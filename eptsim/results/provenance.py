"""What made a result: versions and the git commit. Never a machine's name or path."""

from __future__ import annotations

import functools
import os
import platform
import subprocess
from importlib import metadata
from pathlib import Path

PACKAGES = ("eptsim", "torch", "numpy", "numba", "scipy", "h5py")
"""The packages whose versions a result records."""

UNKNOWN = "unknown"
"""Version of a package that is not installed as one."""


@functools.cache
def collect_provenance() -> dict[str, str]:
    """Return ``{"eptsim_version": ..., "torch_version": ..., "python_version": ...}``.

    With ``"git_commit"`` where eptsim runs from its own git checkout: the full hash, and
    ``-dirty`` after it where tracked files differ. Collected once per process.
    """
    found = {f"{name}_version": _version(name) for name in PACKAGES}
    found["python_version"] = platform.python_version()
    commit = git_commit(Path(__file__).resolve().parents[2])
    if commit is not None:
        found["git_commit"] = commit
    return found


def git_commit(folder: Path) -> str | None:
    """Return the commit checked out at ``folder``, or None if that is not the top of a checkout.

    A package installed inside somebody else's checkout has no commit of its own.
    """
    top = _git(folder, "rev-parse", "--show-toplevel")
    commit = _git(folder, "rev-parse", "--verify", "HEAD")
    if not top or not commit or Path(top).resolve() != folder.resolve():
        return None
    changed = _git(folder, "status", "--porcelain", "--untracked-files=no")
    return commit if changed == "" else f"{commit}-dirty"


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return UNKNOWN


def _git(folder: Path, *arguments: str) -> str | None:
    """Output of one git command, or None where it fails or there is no git."""
    # GIT_DIR and its kin, set inside hooks, would answer for another repository
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
            env={**environment, "GIT_OPTIONAL_LOCKS": "0"},
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
