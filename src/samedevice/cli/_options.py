"""Options and arguments that several commands share."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from samedevice.cli._completion import complete_format, complete_language
from samedevice.findings import OUTPUT_FORMATS
from samedevice.messages import Language, languages

DEFAULT_MACHINE = "2x24GB"

Lang = Annotated[
    str | None,
    typer.Option(
        metavar="|".join(languages()),
        autocompletion=complete_language,
        help="Language of the messages; default: that of the locale.",
        show_default=False,
    ),
]
Form = Annotated[
    str | None,
    typer.Option(
        "--output-format",
        metavar="|".join(OUTPUT_FORMATS),
        autocompletion=complete_format,
        help="How findings are written: for people (text, the default), as the JSON document, as annotations "
        "of GitHub Actions, as SARIF.",
        show_default=False,
    ),
]
FormFile = Annotated[
    Path | None,
    typer.Option(
        "--output-file",
        metavar="FILE",
        help="Write --output-format there, and the text as well where it always goes.",
        show_default=False,
    ),
]
Known = Annotated[
    Path | None,
    typer.Option(
        "--baseline",
        metavar="FILE",
        help="Leave out the findings that this file knows, so that only new ones count.",
        show_default=False,
    ),
]
WriteKnown = Annotated[
    bool, typer.Option("--write-baseline", help="Write what is found into the baseline instead.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Findings only, one line each.")]
Verbose = Annotated[
    bool,
    typer.Option(
        "--verbose", "-v", help="Also frames, versions, what was left out and why, and the settings."
    ),
]
Program = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="SCRIPT|COMMAND [ARGS]",
        help="The program and its own arguments, - for standard input, or the command as you type it: "
        "torchrun --nproc_per_node 2 train.py, python -m pkg.",
        show_default=False,
    ),
]
Module = Annotated[
    str | None,
    typer.Option("-m", metavar="MODULE", help="Run a module, as `python -m` does.", show_default=False),
]


def command_alone() -> typer.Typer:
    """A place for one command, which a module of `commands` gives."""
    return typer.Typer(add_completion=False, rich_markup_mode="markdown")


def chosen_language(lang: str | None) -> Language | None:
    """What `--lang` asks for. Raises `BadParameter` for a language that is not there."""
    if lang is None or lang in languages():
        return lang
    known = ", ".join(map(repr, languages()))
    raise typer.BadParameter(f"{lang!r} is not one of {known}.", param_hint="'--lang'")


def listed(words: str | None) -> tuple[str, ...]:
    """The words of an option that takes several behind commas."""
    return tuple(word.strip() for word in (words or "").split(",") if word.strip())


def open_closed_output() -> None:
    """Python has None where the caller closed standard output; what is printed then goes nowhere."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123 # as Python opens its own
