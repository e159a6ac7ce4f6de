"""Cards out of the settings of other simulators: IBM's aihwkit and Sandia's CrossSim."""

from eptsim.base.errors import CardError
from eptsim.cards.importers.aihwkit import import_aihwkit
from eptsim.cards.importers.crosssim import import_crosssim
from eptsim.cards.importers.draft import Imported, LeftOut

__all__ = ["Imported", "LeftOut", "import_aihwkit", "import_card", "import_crosssim"]


def import_card(source: object, name: str | None = None) -> Imported:
    """Card out of another simulator's settings, with the list of what it could not carry.

    Parameters
    ----------
    source
        ``"aihwkit:ReRamESPreset"`` (a preset, or a dotted name of a configuration), an aihwkit
        configuration itself, or ``"crosssim:parameters.json"``, or just a path that ends in
        ``.json``.
    name
        Name of the card; one made from the source where None.

    Raises
    ------
    CardError
        For a source that is none of these, or that cannot be read.
    """
    if not isinstance(source, str):
        return import_aihwkit(source, name)
    simulator, separator, rest = source.partition(":")
    if separator and simulator == "aihwkit" and rest:
        return import_aihwkit(rest, name)
    if separator and simulator == "crosssim" and rest:
        return import_crosssim(rest, name)
    if source.endswith(".json"):
        return import_crosssim(source, name)
    raise CardError(
        f"import: found {source!r}, allowed: aihwkit:PRESET, aihwkit:package.module.NAME, "
        "crosssim:FILE.json."
    )
