"""The languages: one TOML file each, read once and not before it is needed.

Of a file, a table is parsed when one of its sentences is asked for: who explains one error waits for a few
of fifty.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).parent
_HEAD = re.compile(r"^\[([\w.-]+)\]\n", re.MULTILINE)

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
    return _Catalogue((_FOLDER / f"{language}.toml").read_text("utf-8"))


class _Catalogue(Mapping[str, str]):
    """A file of tables, `[because]` and its like, whose entries are sentences.

    Must guarantee: what it holds is what the file holds, parsed at once; no line of a sentence looks like the
    head of a table.
    """

    def __init__(self, text: str) -> None:
        first, *others = _HEAD.split(text)
        self._texts = {"": first, **dict(zip(others[::2], others[1::2], strict=True))}
        self._parsed: dict[str, Mapping[str, str]] = {}

    def __getitem__(self, key: str) -> str:
        table, _, name = key.rpartition(".")
        return self._table(table)[name]

    def __iter__(self) -> Iterator[str]:
        for table in self._texts:
            yield from (f"{table}.{name}" if table else name for name in self._table(table))

    def __len__(self) -> int:
        return sum(len(self._table(table)) for table in self._texts)

    def _table(self, name: str) -> Mapping[str, str]:
        if name not in self._parsed:
            import tomllib

            self._parsed[name] = tomllib.loads(self._texts[name])
        return self._parsed[name]


def language_of(environment: Mapping[str, str]) -> Language:
    """The language that the locale variables ask for; English where there is no catalogue of it."""
    for variable in ("LC_ALL", "LC_MESSAGES", "LANG"):
        if value := environment.get(variable):
            asked = re.split("[_.@-]", value.lower(), maxsplit=1)[0]
            return asked if asked in languages() else SOURCE
    return SOURCE
