"""Where the files of a traceback are read: named folders and archives, installed packages, scripts.

Nothing is unpacked, imported or run.
"""

from __future__ import annotations

import ast
import tarfile
import zipfile
from collections.abc import Iterator, Sequence
from functools import lru_cache
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Protocol

from samedevice.errors import UsageError
from samedevice.messages import Phrase
from samedevice.provenance.syntax import tree_of
from samedevice.static.files import LARGEST, read_text

ARCHIVES = (".whl", ".zip", ".tar.gz", ".tgz")
"""Endings of archives that are read: wheels, and source distributions."""
_MOST_PARTS = 40
_LAYOUTS = ("", "src/")
"""Where packages stand within a checkout."""


class _Place(Protocol):
    """A folder or an archive."""

    def text(self, file: str) -> str | None:
        """The text of the file that ends a path; the most of the path counts that is there."""


class Sources:
    """The files of a traceback, wherever they are; trees are kept."""

    def __init__(self, places: Sequence[Path] = ()) -> None:
        """Read `places` first: folders with sources, as a checkout, or archives.

        Raises `UsageError` for a place that is neither.
        """
        self._places = [_place(path) for path in places]
        self._found: dict[str, tuple[ast.Module, ...]] = {}

    def trees(self, file: str | None) -> tuple[ast.Module, ...]:
        """The trees of a file that a traceback names, those of the named places first."""
        if file is None or not file.endswith(".py"):
            return ()
        if not self._places:
            return _source_here(file)
        if file not in self._found:
            texts = (place.text(file) for place in self._places)
            named = [tree for text in texts if text is not None and (tree := parsed_text(text)) is not None]
            self._found[file] = (*named, *_source_here(file))
        return self._found[file]


@lru_cache(maxsize=8)
def sources_in(places: tuple[Path, ...]) -> Sources:
    """The sources of some places; those that were read before are kept."""
    return Sources(places)


def _place(path: Path) -> _Place:
    if path.is_dir():
        return _Folder(path)
    if not path.name.endswith(ARCHIVES):
        raise UsageError(Phrase("usage.no-sources", path=str(path)))
    try:
        return _Archive(path)
    except (OSError, zipfile.BadZipFile, tarfile.TarError, EOFError) as error:
        raise UsageError(Phrase("file.unreadable", path=str(path), reason=str(error))) from None


class _Folder:
    def __init__(self, path: Path) -> None:
        self._path = path

    def text(self, file: str) -> str | None:
        """See `_Place`."""
        for ending in _endings(file):
            for layout in _LAYOUTS:
                path = self._path / layout / ending
                try:
                    if path.is_file():
                        return read_text(path)
                except (OSError, ValueError, UsageError):
                    continue
        return None


class _Archive:
    """The Python files of a wheel or of a source distribution, by their paths in it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._zipped = path.name.endswith((".whl", ".zip"))
        names = [name for name in self._names() if name.endswith(".py") and ".." not in name.split("/")]
        tops = {name.partition("/")[0] for name in names}
        top = f"{tops.pop()}/" if len(tops) == 1 and not path.name.endswith(".whl") else ""
        self._files = {
            name.removeprefix(top + layout): name
            for layout in _LAYOUTS
            for name in names
            if name.startswith(top + layout)
        }

    def _names(self) -> list[str]:
        if self._zipped:
            with zipfile.ZipFile(self._path) as archive:
                return [each.filename for each in archive.infolist() if each.file_size <= LARGEST]
        with tarfile.open(self._path) as archive:
            return [each.name for each in archive if each.isfile() and each.size <= LARGEST]

    def text(self, file: str) -> str | None:
        """See `_Place`."""
        name = next((self._files[each] for each in _endings(file) if each in self._files), None)
        if name is None:
            return None
        try:
            return self._content(name).decode("utf-8-sig")
        except (OSError, UnicodeDecodeError, zipfile.BadZipFile, tarfile.TarError, EOFError, RuntimeError):
            return None

    def _content(self, name: str) -> bytes:
        if self._zipped:
            with zipfile.ZipFile(self._path) as archive, archive.open(name) as file:
                return file.read(LARGEST)
        with tarfile.open(self._path) as source:
            found = source.extractfile(name)
            return b"" if found is None else found.read(LARGEST)


def _endings(file: str) -> Iterator[str]:
    """The ends of a path, the longest first: what of it a checkout may have."""
    parts = [part for part in file.replace("\\", "/").split("/") if part not in ("", ".", "~")]
    if ".." in parts or any(":" in part for part in parts[1:]):
        return
    for start in range(max(0, len(parts) - _MOST_PARTS), len(parts)):
        if ":" not in parts[start]:
            yield "/".join(parts[start:])


def _source_here(file: str) -> tuple[ast.Module, ...]:
    """The tree of a file of an installed package, or of a script on this computer."""
    if file.startswith(("//", "\\\\")) or ".." in file:
        return ()
    path = _installed(file) or Path(file)
    try:
        tree = _parsed_file(path) if path.is_file() and path.stat().st_size <= LARGEST else None
    except (OSError, ValueError):
        return ()
    return () if tree is None else (tree,)


def _installed(file: str) -> Path | None:
    """The file of an installed package, found without importing it."""
    parts = [part for part in file.replace("\\", "/").split("/") if part]
    if len(parts) < 2 or file.startswith(("/", "~", "<", ".")) or ".." in parts:
        return None
    try:
        spec = PathFinder.find_spec(parts[0])
    except (ImportError, ValueError, AttributeError):
        return None
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        path = Path(folder).joinpath(*parts[1:])
        if path.is_file():
            return path
    return None


@lru_cache(maxsize=64)
def _parsed_file(path: Path) -> ast.Module | None:
    try:
        return parsed_text(read_text(path))
    except UsageError:
        return None


def parsed_text(text: str) -> ast.Module | None:
    """The tree of a text; None where it is no Python that this Python reads."""
    try:
        return tree_of(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
