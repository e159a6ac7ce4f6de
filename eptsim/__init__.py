"""Simulator of an analog crossbar chip that trains transformers by Equilibrium Propagation."""

from eptsim.cards import Card, list_cards, load_card
from eptsim.chip import Chip
from eptsim.crossbar.crossbar import Crossbar
from eptsim.ep.compare import Comparison, compare
from eptsim.ep.controller import EPController
from eptsim.ep.gradient import Gradient, backprop_gradient
from eptsim.olmo2.model import Olmo2
from eptsim.olmo2.shape import Olmo2Shape

__all__ = [
    "Card",
    "Chip",
    "Comparison",
    "Crossbar",
    "EPController",
    "Gradient",
    "Olmo2",
    "Olmo2Shape",
    "backprop_gradient",
    "compare",
    "list_cards",
    "load_card",
]
__version__ = "0.1.0"
