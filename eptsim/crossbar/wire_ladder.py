"""Interim placeholder, to be replaced."""

from eptsim.crossbar.wires import effective_conductance as ladder_conductance

__all__ = ["ladder_conductance"]
