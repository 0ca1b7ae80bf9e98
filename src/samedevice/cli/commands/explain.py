"""`samedevice explain`: its options, and what they ask for."""

from __future__ import annotations

from typing import Annotated

import typer

from samedevice.cli._completion import complete_code
from samedevice.cli._options import (
    Form,
    FormFile,
    Lang,
    Quiet,
    Verbose,
    chosen_language,
    command_alone,
    open_closed_output,
)
from samedevice.cli._plain import PlainCommand

app = command_alone()


class _Explain(PlainCommand):
    texts = frozenset(("source", "lang", "output_format"))


@app.command(cls=_Explain, epilog="Exit status: 0 explained, 2 wrong usage.")
def explain(
    *,
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="FILE|-|CODE",
            autocompletion=complete_code,
            help="A file with the error, - for standard input, or a code such as SD111.",
            show_default=False,
        ),
    ] = None,
    sources: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WHERE",
            help="Also read the failing functions there: a checkout or another folder, a wheel or source "
            "archive, or a release to download, such as peft==0.17.0. May be given several times.",
            show_default=False,
        ),
    ] = None,
    download: Annotated[
        bool,
        typer.Option(
            "--download",
            help="Download the wheels of the libraries in the traceback, in the versions that the text "
            "tells, and read them; they are not installed or run.",
        ),
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="The same as --output-format json.")] = False,
    output_format: Form = None,
    output_file: FormFile = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
    lang: Lang = None,
) -> None:
    """Explain a pasted error, or the page of a code.

    Reads tracebacks, notebooks and logs as people paste them: with ranks, dates and colours, cut off, or the
    last line alone.
    Names the cause with its reasons, or the likeliest ones. Needs neither a GPU nor torch.
    The source of the failing functions is evidence: that of this environment, and what `--sources` and
    `--download` add for an error from another computer.
    """
    from samedevice.cli._choices import reporting_of, settings_here
    from samedevice.cli._explain import Evidence
    from samedevice.cli._explain import explain as explain_source

    open_closed_output()
    chosen = chosen_language(lang)
    settings = settings_here(chosen)
    form = output_format or ("json" if json else None)
    reporting = reporting_of(settings, form, output_file, quiet=quiet, verbose=verbose)
    evidence = Evidence(tuple(sources or ()), download)
    raise typer.Exit(explain_source(source, evidence, reporting, chosen or settings.language))
