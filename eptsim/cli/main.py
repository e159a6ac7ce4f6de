"""The command line: its verbs, its exit codes and how an error is shown.

Exit codes: 0 done, 1 a check failed or a bug, 2 an input that cannot be used, 3 a phase that did
not settle, 130 interrupted.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.metadata import version
from typing import Annotated

import typer

from eptsim.base.errors import EptsimError, SettleError
from eptsim.cli.cards import app as cards
from eptsim.cli.demo import demo
from eptsim.cli.doctor import doctor
from eptsim.cli.gradient import gradient
from eptsim.cli.output import show_error

# Verbs import torch when they run, not here, so that --help is fast.
app = typer.Typer(
    name="eptsim",
    help="Simulate an analog crossbar chip that trains a transformer by Equilibrium Propagation.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(cards, name="cards")
app.command("demo")(demo)
app.command("doctor")(doctor)
app.command("gradient")(gradient)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"eptsim {version('eptsim')}")
        raise typer.Exit


@app.callback()
def _global_options(
    show_version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error; allowed anywhere.")
    ] = False,
) -> None:
    # Both are for the help page: the first acts in its callback, `main` takes out the second.
    del show_version, debug


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    Parameters
    ----------
    arguments
        What follows ``eptsim`` on the command line; ``sys.argv`` when None.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in given
    try:
        app(args=[item for item in given if item != "--debug"], prog_name="eptsim")
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except KeyboardInterrupt:
        return 130
    except EptsimError as error:
        if debug:
            raise
        show_error(str(error))
        return 3 if isinstance(error, SettleError) else 2
    except Exception as error:
        if debug:
            raise
        show_error(
            f"{type(error).__name__}: {error}. This is a bug in eptsim; "
            "add --debug to see where it happened."
        )
        return 1
    return 0
