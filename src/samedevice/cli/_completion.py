"""What a shell offers while a command is typed; a word for which nothing is offered is a file.

Must guarantee: nothing is imported before a shell asks, and torch never.
"""

from __future__ import annotations

import os
import re

from samedevice.findings import OUTPUT_FORMATS
from samedevice.messages import language_of, languages

_COUNT = re.compile(r"(?P<before>.*\+)?(?P<count>\d+)[xX](?P<name>[^+]*)")
_SIZES = ("16GB", "24GB", "40GB", "80GB")


def complete_machine(incomplete: str) -> list[str]:
    """Machines: a GPU of the table behind the number of them, also behind a `+`."""
    from samedevice.machines import gpu_table

    match = _COUNT.fullmatch(incomplete)
    if match is None:
        return [f"{incomplete}{count}x24GB" for count in (2, 4, 8)] if incomplete[-1:] in ("", "+") else []
    names = [*_SIZES, *(gpu.key for gpu in gpu_table())]
    head = f"{match['before'] or ''}{match['count']}x"
    return [f"{head}{name}" for name in names if name.lower().startswith(match["name"].lower())]


def complete_code(incomplete: str) -> list[tuple[str, str]]:
    """Codes of rules with what they are about."""
    from samedevice.report import render
    from samedevice.rulebook import every_rule

    language = language_of(os.environ)
    wanted = incomplete.upper()
    if not wanted.startswith("SD"[: len(wanted)]) or not wanted:
        return []
    found = [rule for rule in every_rule() if rule.code.startswith(wanted)]
    return [(rule.code, render(rule.phrase("title"), language)) for rule in found]


def complete_launcher(incomplete: str) -> list[str]:
    """Launchers, and python for none."""
    from samedevice.launchers import PYTHON, STARTED

    return _beginning(incomplete, (PYTHON.name, *STARTED))


def complete_format(incomplete: str) -> list[str]:
    """Output formats."""
    return _beginning(incomplete, OUTPUT_FORMATS)


def complete_language(incomplete: str) -> list[str]:
    """Languages of the messages."""
    return _beginning(incomplete, languages())


def _beginning(incomplete: str, words: tuple[str, ...]) -> list[str]:
    return [word for word in words if word.startswith(incomplete)]
