"""The languages: one TOML file each, read once and not before it is needed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).parent

Language = str
"""The name of a catalogue: `en`, `zh`."""
SOURCE: Language = "en"
"""The language that is whole, and the one of the documents that programs read."""


@cache
def languages() -> tuple[Language, ...]:
    """Every language that there is, `en` first."""
    found = {path.stem for path in _FOLDER.glob("*.toml")}
    return SOURCE, *sorted(found - {SOURCE})


@cache
def catalogue(language: Language) -> Mapping[str, str]:
    """The sentences of a language by their keys: `because.line` is `line` of the table `because`."""
    import tomllib

    return dict(_flat(tomllib.loads((_FOLDER / f"{language}.toml").read_text("utf-8"))))


def _flat(table: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, entry in table.items():
        if isinstance(entry, str):
            yield f"{prefix}{name}", entry
        else:
            yield from _flat(entry, f"{prefix}{name}.")


def language_of(environment: Mapping[str, str]) -> Language:
    """The language that the locale variables ask for; English where there is no catalogue of it."""
    for variable in ("LC_ALL", "LC_MESSAGES", "LANG"):
        if value := environment.get(variable):
            asked = re.split("[_.@-]", value.lower(), maxsplit=1)[0]
            return asked if asked in languages() else SOURCE
    return SOURCE
