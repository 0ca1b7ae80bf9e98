"""`samedevice doctor`: its options, and what they ask for."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from samedevice.cli._options import Lang, chosen_language, command_alone, open_closed_output

app = command_alone()


@app.command(epilog="Exit status: 0 nothing found, 1 something found, 2 wrong usage.")
def doctor(
    *,
    project: Annotated[
        Path,
        typer.Option(
            "--project",
            metavar="FOLDER",
            help="The folder whose sources and scripts say what is used.",
        ),
    ] = Path(),
    gpu_test: Annotated[
        bool,
        typer.Option(
            "--gpu-test",
            help="Also copy patterns between all GPUs and the host, and compare every byte.",
        ),
    ] = False,
    gpu_test_seconds: Annotated[
        float,
        typer.Option(min=1, metavar="SECONDS", help="Time for --gpu-test; pairs that are left are told."),
    ] = 60.0,
    json: Annotated[bool, typer.Option("--json", help="Print what was found and read as JSON.")] = False,
    lang: Lang = None,
) -> None:
    """Say what is wrong with this machine and this environment, and what repairs it.

    Reads the driver, the GPUs and what joins them, the installed packages, the variables and what the files
    of the project use. Nothing is imported into this process and nothing is changed; what cannot be read is
    said. Needs neither a GPU nor torch nor a network.
    """
    from samedevice.cli._doctor import judge_environment

    open_closed_output()
    seconds = gpu_test_seconds if gpu_test else None
    raise typer.Exit(judge_environment(project, seconds, json, chosen_language(lang)))
