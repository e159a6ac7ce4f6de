"""Simulator of an analog crossbar chip that trains transformers by Equilibrium Propagation."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from eptsim.base.table import Table
    from eptsim.cards import Card, list_cards, load_card
    from eptsim.chip import Chip
    from eptsim.crossbar.crossbar import Crossbar
    from eptsim.crossbar.wires import effective_conductance
    from eptsim.ep.compare import Comparison, compare
    from eptsim.ep.controller import EPController
    from eptsim.ep.gradient import Gradient, backprop_gradient
    from eptsim.olmo2.model import Olmo2
    from eptsim.olmo2.shape import Olmo2Shape
    from eptsim.results.views import open_results

__all__ = [
    "Card",
    "Chip",
    "Comparison",
    "Crossbar",
    "EPController",
    "Gradient",
    "Olmo2",
    "Olmo2Shape",
    "Table",
    "backprop_gradient",
    "compare",
    "effective_conductance",
    "list_cards",
    "load_card",
    "open_results",
]
__version__ = "0.1.0"

# Imported on first use, so that the command line answers before torch is loaded.
_HOMES = {
    "Card": "eptsim.cards",
    "Chip": "eptsim.chip",
    "Comparison": "eptsim.ep.compare",
    "Crossbar": "eptsim.crossbar.crossbar",
    "EPController": "eptsim.ep.controller",
    "Gradient": "eptsim.ep.gradient",
    "Olmo2": "eptsim.olmo2.model",
    "Olmo2Shape": "eptsim.olmo2.shape",
    "Table": "eptsim.base.table",
    "backprop_gradient": "eptsim.ep.gradient",
    "compare": "eptsim.ep.compare",
    "effective_conductance": "eptsim.crossbar.wires",
    "list_cards": "eptsim.cards",
    "load_card": "eptsim.cards",
    "open_results": "eptsim.results.views",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'eptsim' has no attribute {name!r}")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
