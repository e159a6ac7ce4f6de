"""Device cards: one technology as data, validated and frozen."""

from eptsim.cards.card import Card
from eptsim.cards.loader import list_cards, load_card

__all__ = ["Card", "list_cards", "load_card"]
