"""`samedevice run`: its options, and what they ask for."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from samedevice.cli._completion import complete_launcher, complete_machine
from samedevice.cli._options import (
    DEFAULT_MACHINE,
    Form,
    FormFile,
    Known,
    Lang,
    Module,
    Program,
    Quiet,
    Verbose,
    WriteKnown,
    chosen_language,
    command_alone,
)
from samedevice.cli._stopping import StopsAtProgram
from samedevice.launchers import PYTHON, STARTED

app = command_alone()


@app.command(
    cls=StopsAtProgram,
    context_settings={"allow_interspersed_args": False},
    epilog="Exit status: 0 nothing found, 1 findings, 2 wrong usage, 3 the script itself failed, 130 "
    "interrupted.",
)
def run(
    # Long: a parameter for each option, with its help.
    *,
    program: Program = None,
    module: Module = None,
    machine: Annotated[
        str | None,
        typer.Option(
            metavar="SPEC",
            help="GPUs to pretend: 2x24GB, 8xA100-80G, 4xRTX4090, a + of those, or a TOML file.",
            show_default=DEFAULT_MACHINE,
            autocompletion=complete_machine,
        ),
    ] = None,
    json: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write the findings as JSON.", show_default=False)
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Also write a page for a browser: memory of each GPU and all findings, in one file.",
            show_default=False,
        ),
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Also write memory, operators and copies of each device for chrome://tracing and Perfetto.",
            show_default=False,
        ),
    ] = None,
    fail_fast: Annotated[
        bool,
        typer.Option(
            "--fail-fast", help="Raise at the first mismatch, as real hardware does, instead of going on."
        ),
    ] = False,
    launcher: Annotated[
        str | None,
        typer.Option(
            metavar="|".join((PYTHON.name, *STARTED)),
            autocompletion=complete_launcher,
            help="Start the script through this launcher, one process for each rank, all on the same virtual "
            "machine; python starts none.",
            show_default=False,
        ),
    ] = None,
    nproc: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Processes to launch; default: one for each GPU.", show_default=False
        ),
    ] = None,
    launcher_args: Annotated[
        str | None,
        typer.Option(
            metavar="WORDS", help="More options for the launcher, as one quoted text.", show_default=False
        ),
    ] = None,
    ranks: Annotated[
        str,
        typer.Option(
            metavar="all|one",
            help="one: run rank 0 alone, the other ranks assumed equal; for models too large for many "
            "processes.",
        ),
    ] = "all",
    output_format: Form = None,
    output_file: FormFile = None,
    baseline: Known = None,
    write_baseline: WriteKnown = False,
    fix: Annotated[
        bool,
        typer.Option(
            "--fix",
            help="Write the safe fixes that ran clean into the files of the project; a library gets a patch "
            "in samedevice-patches.",
        ),
    ] = False,
    diff: Annotated[
        bool,
        typer.Option(
            "--diff",
            help="Print what --fix would write, for git apply; the script's own output goes to standard "
            "error.",
        ),
    ] = False,
    try_fixes: Annotated[
        bool,
        typer.Option(
            "--try-fixes",
            help="Run the script again with the safe fixes, changed on no disk, and say what came out.",
        ),
    ] = False,
    no_try: Annotated[
        bool, typer.Option("--no-try", help="With --fix or --diff: do not run the script again.")
    ] = False,
    try_on: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SPEC",
            help="Try fixes on this machine as well; may be given several times.",
            show_default=False,
            autocompletion=complete_machine,
        ),
    ] = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
    lang: Lang = None,
) -> None:
    """Run a script on a virtual multi-GPU machine and list its device bugs.

    The script runs as Python would run it, and its standard output is its own; everything that samedevice
    says goes to standard error. A device mismatch is noted, the operand is moved, and the script goes on, so
    one run shows all bugs.

    With findings the status is 1 however the script ended. Without findings, a script that ends by an
    exception or by sys.exit with anything but 0 gives 3. A script that calls os._exit ends at once, with its
    own status and no report. After --fix the status is that of the script as it is now: 0 where nothing was
    found with the fixes.
    """
    from samedevice.cli._choices import reporting_of, settings_here
    from samedevice.cli._run import Request, run_program

    chosen = chosen_language(lang)
    settings = settings_here(chosen)
    settled = None if PYTHON.name in (launcher, settings.launcher) else settings.launcher
    request = Request(
        program=tuple(program or ()),
        module=module,
        machine=machine or settings.machine or DEFAULT_MACHINE,
        json=json,
        html=html,
        trace=trace,
        fail_fast=fail_fast,
        language=chosen or settings.language,
        launcher=_launcher(launcher, settled, nproc, launcher_args, ranks),
        processes=nproc or settings.nproc,
        launcher_options=tuple(shlex.split(launcher_args or "")),
        one_rank=ranks == "one",
        settled_launcher=settled,
        reporting=reporting_of(
            settings, output_format, output_file, baseline, write_baseline, quiet=quiet, verbose=verbose
        ),
        fixing=_fixing(fix, diff, try_fixes, no_try, try_on),
    )
    raise typer.Exit(run_program(request))


def _launcher(
    launcher: str | None, settled: str | None, nproc: int | None, words: str | None, ranks: str
) -> str | None:
    if ranks not in ("all", "one"):
        raise typer.BadParameter(f"{ranks!r} is not one of 'all', 'one'.", param_hint="'--ranks'")
    if launcher is None and settled is None:
        given = {"--nproc": nproc is not None, "--launcher-args": words is not None}
        for option in (name for name, there in given.items() if there):
            raise typer.BadParameter("needs --launcher.", param_hint=f"'{option}'")
    elif launcher is not None and launcher not in (PYTHON.name, *STARTED):
        known = ", ".join(map(repr, (PYTHON.name, *STARTED)))
        raise typer.BadParameter(f"{launcher!r} is not one of {known}.", param_hint="'--launcher'")
    return None if launcher == PYTHON.name else launcher


def _fixing(fix: bool, diff: bool, try_fixes: bool, no_try: bool, machines: list[str] | None) -> Any:
    from samedevice.cli._run import Fixing

    if fix and diff:
        raise typer.BadParameter("does not go with --diff.", param_hint="'--fix'")
    if no_try and (try_fixes or not (fix or diff)):
        raise typer.BadParameter("goes with --fix or --diff alone.", param_hint="'--no-try'")
    if machines and (no_try or not (fix or diff or try_fixes)):
        raise typer.BadParameter("needs --fix, --diff or --try-fixes.", param_hint="'--try-on'")
    if not (fix or diff or try_fixes):
        return None
    return Fixing(fix, diff, not no_try, tuple(machines or ()))
