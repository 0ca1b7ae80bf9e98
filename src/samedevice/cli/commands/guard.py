"""`samedevice guard`: its options, and what they ask for."""

from __future__ import annotations

from typing import Annotated

import typer

from samedevice.cli._options import Lang, Module, Program, chosen_language, command_alone
from samedevice.cli._stopping import StopsAtProgram

app = command_alone()


@app.command(
    cls=StopsAtProgram,
    context_settings={"allow_interspersed_args": False},
    epilog="Exit status: the program's own; 2 for wrong usage.",
)
def guard(
    *,
    program: Program = None,
    module: Module = None,
    replay: Annotated[
        bool,
        typer.Option(
            "--replay",
            help="After a device error, make the failing call again on a virtual machine, for birthplaces.",
        ),
    ] = False,
    record: Annotated[
        bool,
        typer.Option(
            "--record",
            help="Keep where each tensor was made and moved, so that an error tells why it is there; costs "
            "time in each operator.",
        ),
    ] = False,
    heal: Annotated[
        bool,
        typer.Option(
            "--heal",
            help="Move the operand that is in the wrong place, say so once, and go on; costs time in each "
            "call.",
        ),
    ] = False,
    lang: Lang = None,
) -> None:
    """Run a program on the real machine; a device error that it does not catch is explained below its
    traceback.

    Until then nothing is watched and nothing costs time, unless it is to be recorded or healed. Behind a
    launcher (`samedevice guard torchrun train.py`) each of its processes is guarded.
    """
    from samedevice.cli._choices import settings_here
    from samedevice.cli._guard import guard_program

    chosen = chosen_language(lang)
    language = chosen or settings_here(chosen).language
    status = guard_program(tuple(program or ()), module, language, heal=heal, replay=replay, record=record)
    raise typer.Exit(status)
