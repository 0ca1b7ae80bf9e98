"""`samedevice env lock` and `env diff`: an environment as a file, and two side by side. Need no torch."""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from samedevice.doctor import (
    Comparison,
    ThisHost,
    compared,
    locked,
    read_facts,
    read_locked,
)
from samedevice.errors import UsageError
from samedevice.findings import SCHEMA
from samedevice.messages import SOURCE, Language, Phrase, language_of
from samedevice.report import (
    error_text,
    open_console,
    print_comparison,
    readable_language,
    render,
    render_finding,
)

SAME, DIFFERENT, WRONG_USAGE = 0, 1, 2


def lock_environment(file: Path, chosen: Language | None) -> int:
    """Write this environment into a file, `-` for standard output, and return the exit status."""
    language = readable_language(sys.stdout, chosen or language_of(os.environ))
    to_output = str(file) == "-"
    try:
        if not to_output:
            _free(file)
        document = locked(read_facts(ThisHost(), None))
        text = json.dumps(document, indent=1, ensure_ascii=True) + "\n"
        if to_output:
            with suppress(BrokenPipeError):
                sys.stdout.write(text)
                sys.stdout.flush()
            return SAME
        _write(file, text)
    except UsageError as error:
        print(f"samedevice: {error_text(error, language)}", file=sys.stderr)
        return WRONG_USAGE
    said = Phrase(
        "environment.written",
        path=str(file),
        packages=len(document["packages"]),
        gpus=len(document["gpus"] or ()),
        variables=len(document["variables"]),
    )
    print(f"samedevice: {render(said, language)}")
    return SAME


def _free(file: Path) -> None:
    """Refuse to write over what is not ours."""
    if file.exists():
        try:
            read_locked(file)
        except UsageError:
            raise UsageError(Phrase("environment.in-the-way", path=str(file))) from None


def _write(file: Path, text: str) -> None:
    try:
        file.write_text(text, encoding="utf-8")
    except OSError as error:
        reason = error.strerror or str(error)
        raise UsageError(Phrase("environment.unwritable", path=str(file), reason=reason)) from None


def compare_environments(first: Path, second: Path, as_json: bool, chosen: Language | None) -> int:
    """Say what differs between two files of `env lock`, and return the exit status."""
    language = readable_language(sys.stdout, chosen or language_of(os.environ))
    try:
        sides = (read_locked(first), read_locked(second))
    except UsageError as error:
        print(f"samedevice: {error_text(error, language)}", file=sys.stderr)
        return WRONG_USAGE
    comparison = compared(*sides)
    with suppress(BrokenPipeError):
        if as_json:
            print(json.dumps(_document(comparison), indent=1))
        else:
            names = (str(first), str(second))
            print_comparison(open_console(sys.stdout), comparison, names, language)
        sys.stdout.flush()
    return DIFFERENT if comparison.differences else SAME


def _document(comparison: Comparison) -> dict[str, Any]:
    """The document that `env diff --json` writes; its texts are English."""
    return {
        "schema": SCHEMA,
        "differences": [
            {
                "what": each.what,
                "first": each.first,
                "second": each.second,
                "explains": each.why is not None,
                "why": None if each.why is None else render(each.why, SOURCE),
            }
            for each in comparison.differences
        ],
        "only_first": [render_finding(finding).as_json() for finding in comparison.first],
        "only_second": [render_finding(finding).as_json() for finding in comparison.second],
    }
