"""What commands that print an answer have in common: the reader's language, wrong usage, files."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from samedevice.errors import UsageError
from samedevice.messages import Language, Phrase, language_of
from samedevice.report import error_text, readable_language

WRONG_USAGE = 2


def answered(chosen: Language | None, answer: Callable[[Language], int]) -> int:
    """Give the exit status of `answer`, which gets the language that standard output can carry.

    Wrong usage is told on standard error and has a status of its own.
    """
    language = readable_language(sys.stdout, chosen or language_of(os.environ))
    try:
        return answer(language)
    except UsageError as error:
        print(f"samedevice: {error_text(error, language)}", file=sys.stderr)
        return WRONG_USAGE


def print_answer(show: Callable[[TextIO], object]) -> None:
    """Print on standard output; a reader that closed the pipe has seen enough."""
    with suppress(BrokenPipeError):
        show(sys.stdout)
        sys.stdout.flush()


def cache_folder(name: str) -> Path:
    """The folder of that name among what samedevice keeps for the user."""
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "samedevice" / name


def write_file(path: Path, text: str) -> None:
    """Write a file that the command line named.

    Raises:
        UsageError: The file cannot be written.
    """
    try:
        path.write_text(text, "utf-8")
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(Phrase("file.unwritable", path=str(path), reason=reason)) from None
