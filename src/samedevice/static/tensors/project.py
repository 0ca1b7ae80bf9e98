"""The files that a source file imports from its own project, read when a name of theirs is asked for."""

from __future__ import annotations

import ast
import re
from functools import lru_cache
from pathlib import Path

from samedevice.provenance.syntax import tree_of
from samedevice.static.files import LARGEST
from samedevice.static.tensors.abstract import ClassName, Library, Local
from samedevice.static.tensors.source import ClassText, SourceText, is_module_base

_DEEPEST = 6
"""Imports that are followed from a name to where it is defined."""


_LOOSE = 2
"""So many folders above that of a file are asked for an `__init__.py` where it has none."""


def parse_source(path: Path, text: str) -> SourceText | None:
    """A file's text as a source; None for what is no Python."""
    try:
        tree = tree_of(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return SourceText(path, text, tree, _package(path))


def _package(path: Path) -> str:
    """The dotted name of the package that a file is in; empty where it is in none.

    Folders between a package and the file need no `__init__.py` of their own.
    """
    names: list[str] = []
    folder = path.parent
    around = [folder, *folder.parents[:_LOOSE]]
    inner = next((each for each in around if (each / "__init__.py").is_file()), folder)
    while folder != inner:
        names.append(folder.name)
        folder = folder.parent
    while (folder / "__init__.py").is_file() and folder.parent != folder:
        names.append(folder.name)
        folder = folder.parent
    return ".".join(reversed(names))


class Project:
    """Finds what an imported name is in the files around one that is read.

    Whatever it learnt of files is kept by the object itself, so that a new one reads them anew.
    """

    def __init__(self) -> None:
        self._texts = lru_cache(maxsize=512)(_read)
        self._files = lru_cache(maxsize=96)(self._parsed)
        self._found = lru_cache(maxsize=4096)(self._find)
        self._lineages = lru_cache(maxsize=256)(self._lineage)
        self._file_of = lru_cache(maxsize=4096)(_file_of)
        self._sends_data_in = lru_cache(maxsize=4)(_sends_data_in)
        self._derived_in = lru_cache(maxsize=4)(_derived_in)
        self._classes_in = lru_cache(maxsize=4)(_classes_in)
        self._files_naming = lru_cache(maxsize=256)(_files_naming)

    def find(self, source: SourceText, dotted: str) -> Local | ClassName | Library:
        """What a full name is: a function or a class of the project, or a library's."""
        return self._found(_root(source), dotted, 0)

    def starred(self, source: SourceText, name: str) -> Local | ClassName | None:
        """What a name is that comes with all the names of another file of the project."""
        for star in source.stars:
            found = self.find(source, f"{star}.{name}")
            if not isinstance(found, Library):
                return found
        return None

    def class_of(self, source: SourceText, dotted: str) -> ClassText | None:
        """The class of a full name, where it is the project's."""
        if dotted in source.classes:
            return source.class_text(source.classes[dotted])
        found = self.find(source, dotted)
        return found.text if isinstance(found, ClassName) else None

    def lineage(self, text: ClassText) -> list[ClassText]:
        """A class and those that it derives from, as far as they are read."""
        return self._lineages(text)

    def _lineage(self, text: ClassText) -> list[ClassText]:
        found: list[ClassText] = []
        waiting = [text]
        while waiting and len(found) < 16:
            each = waiting.pop(0)
            if each not in found:
                found.append(each)
                waiting += [
                    base
                    for name in each.bases
                    if name and (base := self.class_of(each.source, name)) is not None
                ]
        return found

    def is_module(self, text: ClassText) -> bool:
        """Whether a class is one of modules, which keep parameters and buffers."""
        return any(is_module_base(base) for each in self.lineage(text) for base in each.bases)

    def given_below(self, text: ClassText, name: str) -> bool:
        """Whether a class that derives from one, in its package, gives an attribute another value."""
        waiting, known = [text.name], {text.name}
        below = self._derived_in(*_around(text.source))
        while waiting:
            for path, derived in below.get(waiting.pop(), ()):
                if derived not in known:
                    known.add(derived)
                    waiting.append(derived)
                source = self._naming(path, name)
                node = source.classes.get(derived) if source is not None else None
                if source is not None and node is not None and name in source.class_text(node).attributes:
                    return True
        return False

    def sends_data(self, source: SourceText) -> bool:
        """Whether a file of the package gives some tensor other data, which may be elsewhere."""
        return source.path.is_file() and self._sends_data_in(*_around(source))

    def text_of(self, source: SourceText, dotted: str) -> str:
        """The text of the file that a full name is imported from, not parsed; empty where there is none."""
        path = self._file_of(_root(source), dotted.rpartition(".")[0])
        return (self._texts(path) or "") if path is not None else ""

    def has_class(self, source: SourceText, name: str) -> bool:
        """Whether any file of the package around a source defines a class of this name."""
        folder = source.path.absolute().parent
        if not source.package:
            return name in self._classes_in(folder, "*.py")
        return name in self._classes_in(_root(source) / source.package.partition(".")[0], "**/*.py")

    def around(self, source: SourceText) -> tuple[Path, str]:
        """The folder of the files that belong together with a source, and their pattern."""
        return _around(source)

    def named_elsewhere(self, source: SourceText, name: str) -> bool:
        """Whether another file of the package around a source has a name in it."""
        if not source.package:
            return False
        folder = _root(source) / source.package.partition(".")[0]
        return any(path != source.path.absolute() for path in self._files_naming(folder, name))

    def _find(self, root: Path, dotted: str, depth: int) -> Local | ClassName | Library:
        home, _, name = dotted.rpartition(".")
        path = self._file_of(root, home)
        source = self._naming(path, name) if path is not None and depth < _DEEPEST else None
        if source is None:
            return Library(dotted)
        if (function := source.function_named(name)) is not None:
            return Local(function, source)
        if name in source.classes:
            return ClassName(source.class_text(source.classes[name]))
        if name in source.imports and source.imports[name] != dotted:
            return self._found(root, source.imports[name], depth + 1)
        if self._file_of(root, dotted) is not None:
            return Library(dotted)  # a file of the package: what has all names of others is not searched
        for star in source.stars:
            found = self._found(root, f"{star}.{name}", depth + 1)
            if not isinstance(found, Library):
                return found
        value = source.globals.get(name)  # a function under another name
        if isinstance(value, ast.Attribute) and source.dotted(value).startswith("torch."):
            return Library(source.dotted(value))
        return Library(dotted)

    def _naming(self, path: Path, name: str) -> SourceText | None:
        """A file as a source; None where its text shows that it neither defines nor imports a name."""
        text = self._texts(path)
        told = text is not None and (name in text or _ALL_NAMES in text)
        return self._files(path) if told else None

    def _parsed(self, path: Path) -> SourceText | None:
        text = self._texts(path)
        return None if text is None else parse_source(path, text)


_ALL_NAMES = "import *"
_CLASS = re.compile(r"^\s*class (\w+)", re.MULTILINE)


def _around(source: SourceText) -> tuple[Path, str]:
    """The folder of a file's package, or else the file's own, and which files of it belong together."""
    if source.package:
        return _root(source) / source.package.partition(".")[0], "**/*.py"
    return source.path.absolute().parent, "*.py"


_SENDS_DATA = re.compile(rb"\w\.data ?=[^=]")


def _sends_data_in(folder: Path, pattern: str) -> bool:
    return any(_SENDS_DATA.search(text) for path in folder.glob(pattern) if (text := _bytes_of(path)))


def _bytes_of(path: Path) -> bytes:
    """What a file holds; nothing of one that cannot be read."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


_DERIVED = re.compile(r"^class (\w+)\(([^)]*)\)", re.MULTILINE)


def _derived_in(folder: Path, pattern: str) -> dict[str, list[tuple[Path, str]]]:
    """The classes in the files of a folder that derive from each, by the last part of its name."""
    found: dict[str, list[tuple[Path, str]]] = {}
    for path in folder.glob(pattern):
        for derived, bases in _DERIVED.findall(_bytes_of(path).decode("utf-8", "replace")):
            for base in bases.split(","):
                found.setdefault(base.strip().rpartition(".")[2], []).append((path, derived))
    return found


def _classes_in(folder: Path, pattern: str) -> frozenset[str]:
    """The names of all classes in the files of a folder."""
    found: set[str] = set()
    for path in folder.glob(pattern):
        found.update(_CLASS.findall(_bytes_of(path).decode("utf-8", "replace")))
    return frozenset(found)


def _files_naming(folder: Path, name: str) -> tuple[Path, ...]:
    """The files of a folder in which a name stands."""
    wanted = name.encode()
    return tuple(path for path in folder.glob("**/*.py") if wanted in _bytes_of(path))


def _file_of(root: Path, dotted: str) -> Path | None:
    if not dotted or dotted.partition(".")[0] == "torch":
        return None
    stem = root.joinpath(*dotted.split("."))
    for path in (stem.with_suffix(".py"), stem / "__init__.py"):
        if path.is_file():
            return path
    return None


def _root(source: SourceText) -> Path:
    parts = len(source.package.split(".")) if source.package else 0
    return source.path.absolute().parents[parts]


def _read(path: Path) -> str | None:
    try:
        return None if path.stat().st_size > LARGEST else path.read_bytes().decode("utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return None
