"""``eptsim cards``: list, show, check and import device cards."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eptsim.base.errors import CardError
from eptsim.base.table import Table
from eptsim.cards import list_cards, load_card
from eptsim.cards.schema import SCHEMA
from eptsim.cli.options import Json
from eptsim.cli.output import console, print_json, table

if TYPE_CHECKING:
    from eptsim.cards.card import EntryView

app = typer.Typer(help="Device cards: list, show, check, import.", no_args_is_help=True)


@app.command("list")
def list_command(as_json: Json = False) -> None:
    """Name the shipped cards."""
    cards = [load_card(name) for name in list_cards()]
    if as_json:
        print_json(
            [
                {"name": card.name, "title": card.title, "technology": card.technology}
                for card in cards
            ]
        )
        return
    made = table("card", "technology", "title")
    for card in cards:
        made.add_row(card.name, card.technology, card.title)
    console().print(made)


@app.command("show")
def show_command(
    name: Annotated[str, typer.Argument(help="A shipped card, or the path of a card file.")],
    everything: Annotated[
        bool, typer.Option("--all", help="Also the entries that the card leaves at their default.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show a card: every entry with value, unit and where the number comes from."""
    card = load_card(name)
    entries = [entry for entry in card.entries() if everything or entry.kind != "default"]
    if as_json:
        header = {"name": card.name, "title": card.title, "technology": card.technology}
        body = {"description": card.description, "sha256": card.sha256}
        print_json({**header, **body, "entries": [_as_dict(entry) for entry in entries]})
        return
    out = console()
    out.print(f"{card.name}: {card.title}", style="bold", markup=False)
    out.print(card.description, markup=False)
    out.print()
    made = table("entry", "value", "kind", "origin")
    for entry in entries:
        made.add_row(entry.key, _value(entry), entry.kind, _origin(entry))
    out.print(made)


@app.command("check")
def check_command(
    paths: Annotated[
        list[str] | None,
        typer.Argument(metavar="[PATH]...", help="Card files; the shipped cards where none."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Check cards and exit with 1 if one cannot be used."""
    results = [(name, _problem(name)) for name in paths or list_cards()]
    if as_json:
        print_json([{"card": name, "ok": not found, "error": found} for name, found in results])
    else:
        made = table("card", "", "")
        for name, found in results:
            made.add_row(name, "[red]refused[/red]" if found else "[green]ok[/green]", found)
        console().print(made)
    if any(found for _, found in results):
        raise typer.Exit(1)


@app.command("import")
def import_command(
    source: Annotated[
        str,
        typer.Argument(
            help="aihwkit:PRESET, aihwkit:package.module.NAME or a CrossSim parameter file (.json)."
        ),
    ],
    out: Annotated[
        Path | None, typer.Option("-o", "--out", help="Card file to write; printed where none.")
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", help="Name of the card; the file's stem where none.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Make a card of another simulator's settings, and list what it could not carry."""
    from eptsim.cards.importers import import_card

    if out is not None and out.exists():
        raise CardError(f"{out}: found a file there, allowed: the name of a new card file.")
    made = import_card(source, name or (None if out is None else out.stem))
    if out is not None:
        try:
            out.write_text(made.text, encoding="utf-8")
        except OSError as error:
            raise CardError(f"{out}: cannot be written: {error}.") from error
    if as_json:
        left_out = [{"field": f.field, "value": f.value, "why": f.why} for f in made.left_out]
        written = None if out is None else str(out)
        print_json({"name": made.card.name, "file": written, "card": made.text,
                    "left_out": left_out})
        return
    if out is None:
        typer.echo(made.text, nl=False)
        return
    entries = sum(entry.kind != "default" for entry in made.card.entries())
    console().print(f"{out}: {entries} entries, {len(made.left_out)} settings not carried",
                    markup=False)
    shown = table("not carried, or not exactly", "value", "why")
    for item in made.left_out:
        shown.add_row(*(text.replace("[", r"\[") for text in (item.field, item.value, item.why)))
    console().print(shown)


def _problem(name: str) -> str | None:
    try:
        load_card(Path(name) if Path(name).is_file() else name)
    except CardError as error:
        return str(error)
    return None


def _value(entry: EntryView) -> str:
    if entry.value is None:
        return "ideal"
    if isinstance(entry.value, Table):
        x, y = entry.value.x, entry.value.y
        return (
            f"{len(x)} points, {min(y):g} to {max(y):g} {entry.unit} over {x[0]:g} to {x[-1]:g} "
            f"{SCHEMA[entry.key].x_unit}"
        )
    value = f"{entry.value:g}" if isinstance(entry.value, float) else str(entry.value)
    return value if entry.unit in ("", "1") else f"{value} {entry.unit}"


def _origin(entry: EntryView) -> str:
    place = ", ".join(part for part in (entry.source, entry.where) if part)
    return "; ".join(part for part in (place, entry.why) if part)


def _as_dict(entry: EntryView) -> dict[str, object]:
    value = entry.value
    return {
        "key": entry.key,
        "value": {"x": value.x, "y": value.y} if isinstance(value, Table) else value,
        "unit": entry.unit,
        "kind": entry.kind,
        "source": entry.source,
        "where": entry.where,
        "why": entry.why,
    }
