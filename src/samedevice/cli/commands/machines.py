"""`samedevice machines`: its options, and what they ask for."""

from __future__ import annotations

from typing import Annotated

import typer

from samedevice.cli._options import Lang, chosen_language, command_alone, open_closed_output

app = command_alone()


@app.command(epilog="Exit status: 0 listed, 2 no GPU of that name.")
def machines(
    *,
    pattern: Annotated[
        str | None,
        typer.Argument(
            metavar="PATTERN",
            help="A part of a name (h100, rtx 40), a pattern with * and ?, or a machine (2x24GB).",
            show_default=False,
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the GPUs as JSON.")] = False,
    lang: Lang = None,
) -> None:
    """List the GPUs that --machine knows by name, with their memory and compute capability.

    The memory is what torch reports on a real GPU. Where it is from is shown when a PATTERN leaves ten GPUs
    or fewer, and in the JSON.
    """
    from samedevice.cli._machines import list_machines

    open_closed_output()
    raise typer.Exit(list_machines(pattern, json, chosen_language(lang)))
