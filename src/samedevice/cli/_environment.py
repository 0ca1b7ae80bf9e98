"""`samedevice env lock` and `env diff`: an environment as a file, and two side by side. Need no torch."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from samedevice.cli._answering import answered, print_answer, write_file
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
from samedevice.messages import SOURCE, Language, Phrase
from samedevice.report import (
    open_console,
    print_comparison,
    render,
    render_finding,
)

SAME, DIFFERENT = 0, 1


def lock_environment(file: Path, chosen: Language | None) -> int:
    """Write this environment into a file, `-` for standard output, and return the exit status."""
    return answered(chosen, partial(_lock, file))


def _lock(file: Path, language: Language) -> int:
    to_output = str(file) == "-"
    if not to_output:
        _free(file)
    document = locked(read_facts(ThisHost(), None))
    text = json.dumps(document, indent=1, ensure_ascii=True) + "\n"
    if to_output:
        print_answer(lambda into: into.write(text))
        return SAME
    write_file(file, text)
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


def compare_environments(first: Path, second: Path, as_json: bool, chosen: Language | None) -> int:
    """Say what differs between two files of `env lock`, and return the exit status."""

    def answer(language: Language) -> int:
        comparison = compared(read_locked(first), read_locked(second))

        def show(into: TextIO) -> None:
            if as_json:
                print(json.dumps(_document(comparison), indent=1), file=into)
            else:
                print_comparison(open_console(into), comparison, (str(first), str(second)), language)

        print_answer(show)
        return DIFFERENT if comparison.differences else SAME

    return answered(chosen, answer)


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
