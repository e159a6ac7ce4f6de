"""Finding a factory by its name, ``package.module:factory``."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from eptsim.base.errors import InputError, nearest
from eptsim.testing.bench import Factory


def load_factory(name: str, folder: Path | None = None) -> Factory:
    """The factory called ``name``; its module is also looked for in ``folder``.

    Raises
    ------
    InputError
        For a name of another form, a module that is not there, or one without that callable.
    """
    module_name, _, attribute = name.partition(":")
    if not module_name or not attribute:
        raise InputError(f"factory: found {name!r}, allowed: package.module:factory.")
    if folder is not None and str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise InputError(
            f"factory: found no module {module_name!r} ({error}), allowed: one that Python can "
            "import."
        ) from error
    factory: Factory | None = getattr(module, attribute, None)
    if not callable(factory):
        raise InputError(
            f"factory: found no callable {attribute!r} in {module_name!r}, allowed: "
            f"factory(weight, card, seed).{nearest(attribute, vars(module))}"
        )
    return factory
