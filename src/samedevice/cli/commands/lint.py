"""`samedevice lint`: its options, and what they ask for."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from samedevice.cli._completion import complete_code
from samedevice.cli._options import (
    Form,
    FormFile,
    Known,
    Lang,
    Quiet,
    Verbose,
    WriteKnown,
    chosen_language,
    command_alone,
    listed,
    open_closed_output,
)

app = command_alone()


@app.command(epilog="Exit status: 0 nothing found, 1 findings, 2 wrong usage.")
def lint(
    # Long: a parameter for each option, with its help.
    *,
    paths: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="PATH...", help="Python files, notebooks, and folders with them.", show_default=False
        ),
    ] = None,
    select: Annotated[
        str | None,
        typer.Option(
            metavar="CODES",
            help="Only these rules, by code, by the beginning of a code (SD20), or by name, with commas; ALL "
            "also turns on those that are off by default.",
            show_default=False,
            autocompletion=complete_code,
        ),
    ] = None,
    ignore: Annotated[
        str | None, typer.Option(metavar="CODES", help="Leave these rules out.", show_default=False)
    ] = None,
    exclude: Annotated[
        str | None,
        typer.Option(
            metavar="PATTERNS",
            help="Leave out files and folders below PATH by such names, with commas: tests,*_pb2.py.",
            show_default=False,
        ),
    ] = None,
    fix: Annotated[bool, typer.Option("--fix", help="Write the safe fixes into the files.")] = False,
    diff: Annotated[
        bool,
        typer.Option(
            "--diff", help="Print what --fix would write, for git apply; the rest goes to standard error."
        ),
    ] = False,
    jobs: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Processes that read; default: one for each core.", show_default=False
        ),
    ] = None,
    lsp: Annotated[
        bool,
        typer.Option(
            "--lsp",
            help="Serve an editor over standard input and output, by the Language Server Protocol; needs "
            'pip install "samedevice[lsp]".',
        ),
    ] = False,
    output_format: Form = None,
    output_file: FormFile = None,
    baseline: Known = None,
    write_baseline: WriteKnown = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    lang: Lang = None,
) -> None:
    """Find device bugs in Python sources and notebooks, without running them.

    Follows where each tensor is made, moved and used, through assignments, calls within the project and
    classes. Neither the files nor torch are imported.
    """
    from samedevice.cli._choices import reporting_of, settings_here
    from samedevice.cli._lint import Asked, lint_paths, serve_lint

    if fix and diff:
        raise typer.BadParameter("does not go with --diff.", param_hint="'--fix'")
    open_closed_output()
    chosen = chosen_language(lang)
    settings = settings_here(chosen)
    asked = Asked(
        tuple(paths or ()),
        listed(select),
        listed(ignore),
        listed(exclude),
        fix,
        diff,
        jobs,
        chosen if lsp else chosen or settings.language,
        reporting_of(
            settings, output_format, output_file, baseline, write_baseline, quiet=quiet, verbose=verbose
        ),
    )
    raise typer.Exit(serve_lint(asked) if lsp else lint_paths(asked))
