"""What the command line and the settings of the project together ask for. The command line wins."""

from __future__ import annotations

import os
from pathlib import Path

import typer

from samedevice.cli._reporting import Reporting
from samedevice.errors import UsageError
from samedevice.findings import OUTPUT_FORMATS, Detail
from samedevice.messages import Language, language_of
from samedevice.report import error_text
from samedevice.settings import Settings, find_settings


def settings_here(chosen: Language | None) -> Settings:
    """The settings of the project in which the command is given."""
    try:
        return find_settings(Path.cwd())
    except UsageError as error:
        typer.echo(f"samedevice: {error_text(error, chosen or language_of(os.environ))}", err=True)
        raise typer.Exit(2) from None
    except OSError:  # the working directory is gone
        return Settings()


def reporting_of(
    settings: Settings,
    form: str | None,
    file: Path | None,
    baseline: Path | None = None,
    write: bool = False,
    *,
    quiet: bool,
    verbose: bool,
) -> Reporting:
    """How findings are to be told: what the command line says, else the settings."""
    if quiet and verbose:
        raise typer.BadParameter("does not go with --verbose.", param_hint="'--quiet'")
    named = next((each for each in OUTPUT_FORMATS if each == form), None)
    if form is not None and named is None:
        known = ", ".join(map(repr, OUTPUT_FORMATS))
        raise typer.BadParameter(f"{form!r} is not one of {known}.", param_hint="'--output-format'")
    detail: Detail = "quiet" if quiet else "verbose" if verbose else "normal"
    return Reporting(
        named or settings.output_format or "text",
        file,
        detail,
        baseline or settings.baseline,
        write,
        settings,
    )
