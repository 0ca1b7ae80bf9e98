"""The files to lint, and their text: Python sources as they are, notebooks as the code of their cells."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from samedevice.errors import UsageError
from samedevice.messages import Phrase
from samedevice.provenance.notebook import Notebook, read_notebook

SUFFIXES = (".py", ".ipynb")
LEFT_OUT = frozenset(
    ".git .hg .svn .venv venv .env .tox .nox .eggs __pycache__ node_modules site-packages build dist "
    ".ipynb_checkpoints "
    ".mypy_cache .ruff_cache .pytest_cache .direnv".split()
)
"""Folders that are left out below a named one; a file or a folder that is named itself is read."""
LARGEST = 5_000_000
"""Bytes of a file; a source is far smaller."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A file that could not be linted, and why."""

    path: Path
    why: Phrase


@dataclass(frozen=True, slots=True)
class Text:
    """The code of a file."""

    path: Path
    code: str
    notebook: Notebook | None = None


def files_below(paths: Iterable[Path], exclude: Iterable[str] = ()) -> list[Path]:
    """The files that paths name, each once, in order; raises `UsageError` for what is not there."""
    found: dict[Path, None] = {}
    patterns = tuple(exclude)
    for path in paths:
        if path.is_file():
            found[path] = None
        elif path.is_dir():
            found |= dict.fromkeys(_below(path, patterns))
        else:
            raise UsageError(Phrase("lint.no-path", path=str(path)))
    return list(found)


def _below(folder: Path, patterns: tuple[str, ...]) -> Iterator[Path]:
    for here, folders, names in os.walk(folder):
        at = Path(here)
        folders[:] = sorted(
            name for name in folders if name not in LEFT_OUT and not _excluded(at / name, folder, patterns)
        )
        for name in sorted(names):
            if name.endswith(SUFFIXES) and not _excluded(at / name, folder, patterns):
                yield at / name


def _excluded(path: Path, folder: Path, patterns: tuple[str, ...]) -> bool:
    if not patterns:
        return False
    below = path.relative_to(folder).as_posix()
    return any(
        fnmatch(below, pattern) or fnmatch(path.name, pattern) or fnmatch(path.as_posix(), pattern)
        for pattern in patterns
    )


def is_excluded(path: Path, folder: Path, patterns: Iterable[str]) -> bool:
    """Whether a file, or a folder below `folder` that it is in, is left out by such names."""
    given = tuple(patterns)
    if not given or not path.is_relative_to(folder):
        return False
    below = path.relative_to(folder).parts
    return any(
        _excluded(folder.joinpath(*below[:count]), folder, given) for count in range(1, len(below) + 1)
    )


def read_code(path: Path) -> Text | Unreadable:
    """The code of a file, or why there is none."""
    try:
        if path.stat().st_size > LARGEST:
            return Unreadable(path, Phrase("lint.too-large", path=str(path), most=LARGEST))
        content = path.read_bytes()
    except OSError as error:
        return Unreadable(
            path, Phrase("lint.unreadable", path=str(path), reason=error.strerror or str(error))
        )
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return Unreadable(path, Phrase("lint.no-text", path=str(path)))
    if path.suffix != ".ipynb":
        return Text(path, text)
    notebook = read_notebook(text)
    if notebook is None:
        return Unreadable(path, Phrase("lint.no-notebook", path=str(path)))
    return Text(path, notebook.code, notebook)
