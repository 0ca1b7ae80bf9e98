"""Configurations of well-known models that come with samedevice, for names on the hub.

Must guarantee: a name gets the configuration that `published/index.toml` gives it, or none; nothing is
guessed from a similar name.
"""

from __future__ import annotations

import difflib
import tomllib
from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).parents[1] / "published"
_ALIKE = 3
"""So many similar names are offered."""


def published_folder(name: str) -> tuple[Path, str] | None:
    """The folder with the configuration of this name on the hub, and the whole name; None where none is here.

    The owner may be left out. Case does not count, as on the hub.

    >>> folder, name = published_folder("qwen2.5-7b-instruct")
    >>> name, folder.joinpath("config.json").is_file()
    ('Qwen/Qwen2.5-7B-Instruct', True)
    """
    found = _names().get(name.lower())
    return None if found is None else (_FOLDER / found[0], found[1])


def published() -> list[tuple[str, Path]]:
    """Every configuration here: the name of its model on the hub, and its folder."""
    return [(name, _FOLDER / name) for name in tomllib.loads((_FOLDER / "index.toml").read_text("utf-8"))]


def is_published(folder: Path) -> bool:
    """Whether a folder is one of these."""
    return _FOLDER in folder.parents


def alike(name: str) -> list[str]:
    """Names with a configuration here that may be meant: those that begin alike, else those written alike."""
    asked = name.rpartition("/")[2].lower()
    short = {each.rpartition("/")[2]: whole for each, (_, whole) in _names().items()}
    begin = [each for each in short if asked and (each.startswith(asked) or asked.startswith(each))]
    close = sorted(begin) or difflib.get_close_matches(asked, short, _ALIKE, cutoff=0.8)
    return [short[each] for each in close[:_ALIKE]]


@cache
def _names() -> dict[str, tuple[str, str]]:
    """Names in small letters, with and without owner: the folder, and the name as the hub writes it."""
    found: dict[str, tuple[str, str]] = {}
    for folder, entry in tomllib.loads((_FOLDER / "index.toml").read_text("utf-8")).items():
        for name in (folder, *entry.get("also", ())):
            found[name.lower()] = folder, name
            found.setdefault(name.partition("/")[2].lower(), (folder, name))
    return found
