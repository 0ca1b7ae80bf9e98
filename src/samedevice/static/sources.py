"""Where the files of a traceback are read: named folders and archives, installed packages, scripts.

Nothing is unpacked, imported or run.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from functools import lru_cache
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from samedevice.errors import UsageError
from samedevice.messages import Phrase
from samedevice.provenance.syntax import tree_of
from samedevice.static.files import LARGEST, read_text

if TYPE_CHECKING:
    import zipfile

ARCHIVES = (".whl", ".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
"""Endings of archives that are read: wheels, and source distributions."""
_ZIPPED = (".whl", ".zip")
_MOST_PARTS = 40
_MOST_FILES = 100_000
_MOST_TEXT = 200_000_000
"""Bytes of Python that are read out of an archive."""
_MOST_UNPACKED = 1_000_000_000
"""Bytes of an archive that has to be read through."""
_LAYOUTS = ("", "src", "python")
"""Where packages stand within a checkout."""


class _Place(Protocol):
    """A folder, an archive or a file."""

    def text(self, parts: Sequence[str]) -> str | None:
        """The text of the file that ends a path; the most of the path counts that is there."""


class Sources:
    """The files of a traceback, wherever they are; trees are kept."""

    def __init__(self, places: Iterable[Path] = ()) -> None:
        """Read `places` first: folders with sources, as a checkout; archives; Python files.

        Raises `UsageError` for a place that is none of these, or cannot be read.
        """
        self._places = [_place(path) for path in places]
        self._found: dict[str, tuple[ast.Module, ...]] = {}
        self.used = False
        """Whether one of the places had a file that was asked for."""

    def trees(self, file: str | None) -> tuple[ast.Module, ...]:
        """The trees of a file that a traceback names, those of the named places first."""
        if file is None or not file.endswith(".py"):
            return ()
        if not self._places:
            return _source_here(file)
        if file not in self._found:
            parts = _parts(file)
            texts = (place.text(parts) for place in self._places) if parts else ()
            named = [tree for text in texts if text is not None and (tree := parsed_text(text)) is not None]
            self._found[file] = (*named, *_source_here(file))
            self.used = self.used or bool(named)
        return self._found[file]


def _place(path: Path) -> _Place:
    if path.is_dir():
        return _Folder(path)
    name = path.name.lower()
    if name.endswith(".py") and path.is_file():
        return _File(path.name, read_text(path))
    if name.endswith(ARCHIVES):
        return _Archive(_read_archive(path, zipped=name.endswith(_ZIPPED)))
    raise UsageError(Phrase("usage.no-sources", path=str(path)))


def _read_archive(path: Path, *, zipped: bool) -> dict[str, str]:
    """The Python files of an archive; raises `UsageError` for one that cannot be read, whatever it holds."""
    import lzma
    import tarfile
    import zipfile
    import zlib

    known = (OSError, ValueError, KeyError, EOFError, RuntimeError, NotImplementedError)
    try:
        return _zipped(path) if zipped else _packed(path)
    except UsageError:
        raise
    except (*known, zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError) as error:
        raise UsageError(Phrase("file.unreadable", path=str(path), reason=str(error))) from None


class _File:
    def __init__(self, name: str, text: str) -> None:
        self._name, self._text = name, text

    def text(self, parts: Sequence[str]) -> str | None:
        """See `_Place`."""
        return self._text if parts[-1] == self._name else None


class _Folder:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._name = path.resolve().name

    def text(self, parts: Sequence[str]) -> str | None:
        """See `_Place`."""
        for number in range(len(parts)):
            if number == len(parts) - 1 and not self._may_be_alone(parts):
                return None
            for layout in _LAYOUTS:
                path = self._path.joinpath(layout, *parts[number:])
                try:
                    if path.is_file():
                        return read_text(path)
                except (OSError, ValueError, UsageError):
                    continue
        return None

    def _may_be_alone(self, parts: Sequence[str]) -> bool:
        """Whether the name of a file is enough: not where it is one of a package that stands elsewhere."""
        return len(parts) == 1 or parts[0] == "" or parts[-2] == self._name


class _Archive:
    """The Python files of a wheel or of a source distribution, by their names."""

    def __init__(self, texts: dict[str, str]) -> None:
        self._named: dict[str, list[tuple[list[str], str]]] = {}
        for name, text in texts.items():
            own = name.replace("\\", "/").split("/")
            self._named.setdefault(own[-1], []).append((own, text))

    def text(self, parts: Sequence[str]) -> str | None:
        """See `_Place`."""
        fitting = [(_same_end(own, parts), -len(own), text) for own, text in self._named.get(parts[-1], ())]
        longest, depth, text = max(fitting, key=lambda each: each[:2], default=(0, 0, ""))
        alone = len(parts) == 1 or (parts[0] == "" and depth == -1)
        return text if longest > 1 or (longest == 1 and alone) else None


def _same_end(own: Sequence[str], parts: Sequence[str]) -> int:
    """How many of the last parts of two paths are the same."""
    count = 0
    for one, other in zip(reversed(own), reversed(parts), strict=False):
        if one != other:
            break
        count += 1
    return count


def _zipped(path: Path) -> dict[str, str]:
    import zipfile

    with zipfile.ZipFile(path) as archive:
        wanted = [each for each in archive.infolist() if _is_wanted(each.filename, each.file_size)]
        _bounded(path, len(wanted), sum(each.file_size for each in wanted))
        return _decoded((each.filename, _of_zip(archive, each)) for each in wanted)


def _of_zip(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    with archive.open(entry) as file:
        return file.read(LARGEST + 1)


def _packed(path: Path) -> dict[str, str]:
    """The files of a tar archive, which is read through once."""
    import tarfile

    found: list[tuple[str, bytes]] = []
    through = text = 0
    with tarfile.open(path) as archive:
        for each in archive:
            through += each.size
            _bounded(path, len(found), text)
            if through > _MOST_UNPACKED:
                raise UsageError(Phrase("preflight.too-large", path=str(path), most=_MOST_UNPACKED))
            if each.isfile() and _is_wanted(each.name, each.size):
                file = archive.extractfile(each)
                found.append((each.name, b"" if file is None else file.read(LARGEST + 1)))
                text += each.size
    return _decoded(found)


def _is_wanted(name: str, size: int) -> bool:
    parts = name.replace("\\", "/").split("/")
    return name.endswith(".py") and size <= LARGEST and ".." not in parts and parts[0] != "__MACOSX"


def _bounded(path: Path, files: int, text: int) -> None:
    if files > _MOST_FILES or text > _MOST_TEXT:
        raise UsageError(Phrase("preflight.too-large", path=str(path), most=_MOST_TEXT))


def _decoded(files: Iterable[tuple[str, bytes]]) -> dict[str, str]:
    found = {}
    for name, content in files:
        try:
            found[name] = content.decode("utf-8-sig")
        except UnicodeDecodeError:
            continue
    return found


def _parts(file: str) -> list[str]:
    """The parts of a path, the first one empty where it begins at a root; none for one that goes up."""
    parts = [part for part in file.replace("\\", "/").split("/") if part not in ("", ".")]
    rooted = file.startswith(("/", "\\", "~")) or file[1:2] == ":"
    if ".." in parts or len(parts) > _MOST_PARTS or any(":" in part for part in parts[1:]):
        return []
    return ["", *parts] if rooted else parts


def _source_here(file: str) -> tuple[ast.Module, ...]:
    """The tree of a file of an installed package, or of a script on this computer."""
    if file.startswith(("//", "\\\\")) or ".." in file:
        return ()
    path = _installed(file) or Path(file)
    try:
        state = path.stat() if path.is_file() else None
        small = state is not None and state.st_size <= LARGEST
        tree = _parsed_file(path, state.st_mtime_ns) if state is not None and small else None
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
def _parsed_file(path: Path, changed: int) -> ast.Module | None:
    """The tree of a file as it was when it was `changed` last."""
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
