"""`samedevice env`: its options, and what they ask for."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from samedevice.cli._options import Lang, chosen_language, open_closed_output

app = typer.Typer(
    add_completion=False,
    help="Write down an environment, and compare two.",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.command(epilog="Exit status: 0 written, 2 wrong usage.")
def lock(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Where to write it, as JSON; - for standard output.")
    ],
    *,
    lang: Lang = None,
) -> None:
    """Write what matters of this environment into a file.

    The packages that decide devices, the driver, the GPUs and what joins them, and variables of an
    allow-list: no other variable, no name, nothing secret.
    """
    from samedevice.cli._environment import lock_environment

    open_closed_output()
    raise typer.Exit(lock_environment(file, chosen_language(lang)))


@app.command(epilog="Exit status: 0 nothing differs, 1 something differs, 2 wrong usage.")
def diff(
    first: Annotated[Path, typer.Argument(metavar="A", help="A file of env lock.")],
    second: Annotated[Path, typer.Argument(metavar="B", help="Another.")],
    *,
    json: Annotated[bool, typer.Option("--json", help="Print the differences as JSON.")] = False,
    lang: Lang = None,
) -> None:
    """Say what differs between two environments, and what of it may explain a device error.

    For a program that works on one machine and fails on another.
    """
    from samedevice.cli._environment import compare_environments

    open_closed_output()
    raise typer.Exit(compare_environments(first, second, json, chosen_language(lang)))
