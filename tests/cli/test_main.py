"""Exit codes, errors in one line, and a help page that does not load torch."""

import subprocess
import sys

import pytest
import typer

from eptsim.base.errors import InputError, SettleError
from eptsim.cli import main as command_line


def run(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "eptsim", *arguments], capture_output=True, text=True, check=False
    )


@pytest.fixture
def failing_verb(monkeypatch):
    """Add a verb ``fail`` to a copy of the app; what it raises is for the test to say."""

    def add(error):
        app = typer.Typer(pretty_exceptions_enable=False)

        @app.callback()
        def options():
            pass

        @app.command("fail")
        def fail():
            raise error

        monkeypatch.setattr(command_line, "app", app)

    return add


def test_version():
    ran = run("--version")
    assert (ran.returncode, ran.stdout) == (0, "eptsim 0.1.0\n")


def test_no_argument_shows_help():
    ran = run()
    assert "doctor" in ran.stdout + ran.stderr


def test_an_unknown_verb_is_a_usage_error_with_the_nearest_verb():
    ran = run("docter")
    assert ran.returncode == 2
    assert "doctor" in ran.stderr and "Traceback" not in ran.stderr


def test_an_error_is_one_line_on_stderr():
    ran = run("cards", "show", "idael")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.count("\n") == 1
    assert "Did you mean 'ideal'?" in ran.stderr


def test_debug_shows_the_traceback_wherever_it_stands():
    for arguments in (("--debug", "cards", "show", "idael"), ("cards", "show", "idael", "--debug")):
        ran = run(*arguments)
        assert ran.returncode == 1
        assert "Traceback" in ran.stderr and "CardError" in ran.stderr


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InputError("a\nlong message"), 2),
        (SettleError("layer 3 did not settle"), 3),
        (KeyboardInterrupt(), 130),
        (ZeroDivisionError("division by zero"), 1),
        (typer.Exit(1), 1),
    ],
)
def test_exit_codes(failing_verb, error, code):
    failing_verb(error)
    assert command_line.main(["fail"]) == code


def test_a_message_is_folded_into_one_line(failing_verb, capsys):
    failing_verb(InputError("card 'x' [bold]:\n  offset"))
    command_line.main(["fail"])
    assert capsys.readouterr().err == "eptsim: card 'x' [bold]: offset\n"


def test_an_unexpected_error_says_how_to_see_more(failing_verb, capsys):
    failing_verb(ZeroDivisionError("division by zero"))
    command_line.main(["fail"])
    assert "--debug" in capsys.readouterr().err


def test_debug_raises(failing_verb):
    failing_verb(InputError("no"))
    with pytest.raises(InputError):
        command_line.main(["fail", "--debug"])


def test_help_does_not_import_torch():
    code = (
        "import sys; from eptsim.cli.main import main; main(['--help']);"
        "heavy = {'torch', 'numba', 'scipy', 'matplotlib', 'xarray', 'transformers'};"
        "sys.exit(' '.join(sorted(heavy & set(sys.modules))) or 0)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
