"""The command line: its commands, its version, and what is said of an error of ours.

Option words stop at the script's name: everything behind it belongs to the script.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from samedevice.cli.commands import Commands
from samedevice.messages import Phrase, language_of

_INTERNAL_ERROR = 70
_SETTINGS: dict[str, Any] = {"help_option_names": ["-h", "--help"]}


class _Group(TyperGroup):
    """Makes a command when it is asked for: one does not wait for the options of all."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = Commands()  # type: ignore[assignment]


app = typer.Typer(
    name="samedevice",
    cls=_Group,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    context_settings=_SETTINGS,
)


def main() -> None:
    """Entry point of the `samedevice` command."""
    try:
        _command()
    except Exception as error:  # of ours: a script's own error never gets here
        if os.environ.get("SAMEDEVICE_DEBUG"):
            raise
        from samedevice.report import render

        reason = f"{type(error).__name__}: {error}"
        told = render(Phrase("internal-error", reason=reason), language_of(os.environ))
        print(f"samedevice: {told}", file=sys.stderr)
        raise SystemExit(_INTERNAL_ERROR) from None


def _command() -> None:
    # Not `app()`: calling a Typer object installs typer's own sys.excepthook, which the script would then
    # see.
    words = sys.argv[1:]
    if words and words[0] in Commands():  # options of the program stand before a command: here there are none
        Commands()[words[0]].main(words[1:], f"samedevice {words[0]}", **_SETTINGS)
    typer.main.get_command(app).main(prog_name="samedevice")


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import PackageNotFoundError, version

        import samedevice

        try:
            torch = f"torch {version('torch')}"
        except PackageNotFoundError:
            torch = "no torch"
        typer.echo(f"samedevice {samedevice.__version__} ({torch}, Python {sys.version.split()[0]})")
        raise typer.Exit


@app.callback()
def samedevice(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the versions and exit."
        ),
    ] = False,
) -> None:
    """Run your real multi-GPU PyTorch program on a machine without a GPU and see every device bug."""
