"""How the math libraries' threads wait for each other."""

from __future__ import annotations

import os


def wait_passively() -> None:
    """Let idle math threads sleep rather than spin; call it before torch is imported.

    Spinning threads of two programs on the same cores slow both down tenfold. A setting of the
    user's own is left alone.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
