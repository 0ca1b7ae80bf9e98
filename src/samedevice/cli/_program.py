"""The user's program, run as Python itself would run it.

What must hold: `__main__` is a real module for as long as the process lives (pickling, multiprocessing), with
the names that Python gives it; `sys.argv` and `sys.path[0]` are Python's; a program that cannot be found is
told before anything runs.
"""

from __future__ import annotations

import builtins
import linecache
import os
import pkgutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.machinery import (
    BuiltinImporter,
    ExtensionFileLoader,
    ModuleSpec,
    SourceFileLoader,
    SourcelessFileLoader,
)
from importlib.util import decode_source
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from samedevice.edited import content
from samedevice.errors import UsageError
from samedevice.messages import Phrase


@dataclass(frozen=True, slots=True)
class Program:
    """A program that was found and has not run yet."""

    file: str | None
    """Its main file, where it has one."""
    argv: tuple[str, ...]
    path_entry: str
    """What Python puts first on `sys.path`."""
    names: dict[str, Any]
    """What the namespace of `__main__` starts with."""
    load: Callable[[], CodeType]
    """Reads and compiles the main file; a syntax error in it is the program's own error."""
    parent: str = ""
    """Package that `-m` imports first."""

    def run(self) -> None:
        """Run it; whatever it raises, `SystemExit` included, comes out."""
        main = ModuleType("__main__")
        vars(main).update(self.names, __builtins__=builtins)
        if sys.version_info < (3, 14):
            main.__annotations__ = {}
        sys.argv = list(self.argv)
        sys.modules["__main__"] = main
        if (
            "multiprocessing" in sys.modules
        ):  # imported by us, it named our own main module so; spawned workers send back classes of it
            sys.modules["__mp_main__"] = main
        if self.parent:
            __import__(self.parent)  # not importlib.import_module: that would add a frame to its tracebacks
        exec(self.load(), vars(main))


def find_script(path: str, args: tuple[str, ...]) -> Program:
    """The program in a file, in a folder or in a zip archive with a `__main__.py`."""
    file = Path(path)
    if not file.exists():
        raise UsageError(Phrase("usage.script-missing", path=path))
    importer = pkgutil.get_importer(str(file.absolute()))
    if importer is not None:
        spec = importer.find_spec("__main__")
        if spec is None or spec.loader is None:
            raise UsageError(Phrase("usage.no-main", path=path))
        return _from_spec(spec, (path, *args), str(file.absolute()), "")
    absolute = path if file.is_absolute() else f"{Path.cwd()}{os.sep}{path}"  # not tidied: Python keeps `./`
    try:
        source = content(absolute)
    except OSError as error:
        raise UsageError(
            Phrase("usage.script-unreadable", path=path, reason=str(error.strerror or error))
        ) from None
    if file.suffix == ".pyc":
        compiled = SourcelessFileLoader("__main__", absolute)
        return Program(
            absolute,
            (path, *args),
            _folder(file),
            _names(absolute, compiled),
            lambda: _code(compiled, "__main__"),
        )
    return Program(
        file=absolute,
        argv=(path, *args),
        path_entry=_folder(file),
        names=_names(absolute, SourceFileLoader("__main__", absolute)),
        load=lambda: compile(source, absolute, "exec", dont_inherit=True),
    )


def find_module(name: str, args: tuple[str, ...]) -> Program:
    """The program that `python -m name` runs.

    Nothing is imported yet: a package's `__init__` is part of the program.
    """
    here = str(Path.cwd())
    spec = _search(name, here)
    if spec is None:
        raise UsageError(Phrase("usage.module-missing", module=name))
    if spec.submodule_search_locations is not None:
        spec = _search(f"{name}.__main__", here)
    if spec is None or not hasattr(spec.loader, "get_code") or _has_no_code(spec):
        raise UsageError(Phrase("usage.module-not-runnable", module=name))
    return _from_spec(spec, (spec.origin or name, *args), here, spec.parent or "")


def find_code(code: str, args: tuple[str, ...]) -> Program:
    """The program that `python -c code` runs."""
    return _of_text(code, "<string>", ("-c", *args))


def find_stdin(args: tuple[str, ...]) -> Program:
    """The program that `python -` reads from standard input."""
    if sys.stdin is None:
        raise UsageError(Phrase("usage.no-stdin"))
    try:
        source = sys.stdin.buffer.read()
    except OSError as error:
        raise UsageError(
            Phrase("usage.script-unreadable", path="-", reason=str(error.strerror or error))
        ) from None
    return _of_text(source, "<stdin>", ("-", *args))


def _of_text(source: str | bytes, name: str, argv: tuple[str, ...]) -> Program:
    """A program that has no file; its lines are kept for findings and tracebacks."""

    def load() -> CodeType:
        code = compile(source, name, "exec", dont_inherit=True)
        text = source if isinstance(source, str) else decode_source(source)
        linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
        return code

    names = _names(name, BuiltinImporter)
    if name == "<string>":
        del names["__file__"], names["__cached__"]
    return Program(None, argv, "", names, load)


def enter_path(entry: str) -> None:
    """Put the program's folder first on `sys.path`, in the place of what Python put there for us."""
    if not sys.flags.safe_path:
        sys.path[0:1] = [entry]


def _from_spec(spec: ModuleSpec, argv: tuple[str, ...], path_entry: str, parent: str) -> Program:
    names = _names(spec.origin, spec.loader) | {
        "__cached__": spec.cached,
        "__package__": parent,
        "__spec__": spec,
    }
    return Program(spec.origin, argv, path_entry, names, lambda: _code(spec.loader, spec.name), parent)


def _names(file: str | None, loader: object) -> dict[str, Any]:
    return {
        "__name__": "__main__",
        "__doc__": None,
        "__package__": None,
        "__loader__": loader,
        "__spec__": None,
        "__file__": file,
        "__cached__": None,
    }


def _code(loader: Any, name: str) -> CodeType:
    code = loader.get_code(name)
    if not isinstance(code, CodeType):
        raise ImportError(f"no code object available for {name}", name=name)
    return code


def _search(name: str, here: str) -> ModuleSpec | None:
    """Find a dotted name without importing its parents."""
    locations: Any = None
    spec: ModuleSpec | None = None
    kept = sys.path[:]
    enter_path(here)
    try:
        parts = name.split(".")
        for end in range(1, len(parts) + 1):
            spec = _ask_finders(".".join(parts[:end]), locations)
            if spec is None or (end < len(parts) and spec.submodule_search_locations is None):
                return None
            locations = spec.submodule_search_locations
    finally:
        sys.path[:] = kept
    return spec


def _ask_finders(name: str, locations: Any) -> ModuleSpec | None:
    for finder in sys.meta_path:
        if (spec := finder.find_spec(name, locations)) is not None:
            return spec
    return None


def _has_no_code(spec: ModuleSpec) -> bool:
    return spec.origin == "built-in" or isinstance(spec.loader, ExtensionFileLoader)


def _folder(file: Path) -> str:
    return str(file.resolve().parent)
