"""A conformance suite for anything that claims to be a crossbar: ``conformance(factory)``.

From pytest, ``pytest --crossbar package.module:factory``; from a shell, ``python -m
eptsim.testing package.module:factory``. The checks are documented in ``docs/conformance.md``.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from eptsim.testing.bench import Factory
    from eptsim.testing.check import Check, Measured
    from eptsim.testing.factories import aihwkit_crossbar, eptsim_crossbar
    from eptsim.testing.report import Report, Row
    from eptsim.testing.suite import all_checks, conformance

__all__ = [
    "Check",
    "Factory",
    "Measured",
    "Report",
    "Row",
    "aihwkit_crossbar",
    "all_checks",
    "conformance",
    "eptsim_crossbar",
]

# Imported on first use: pytest loads the plugin of this package at every start.
_HOMES = {
    "Check": "eptsim.testing.check",
    "Factory": "eptsim.testing.bench",
    "Measured": "eptsim.testing.check",
    "Report": "eptsim.testing.report",
    "Row": "eptsim.testing.report",
    "aihwkit_crossbar": "eptsim.testing.factories",
    "all_checks": "eptsim.testing.suite",
    "conformance": "eptsim.testing.suite",
    "eptsim_crossbar": "eptsim.testing.factories",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'eptsim.testing' has no attribute {name!r}")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
