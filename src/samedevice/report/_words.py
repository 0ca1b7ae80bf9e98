"""Small values as people read them: shapes, types, paths, and script text made harmless."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from samedevice.events import Operand
from samedevice.provenance import installed_path

_SHORT_TYPES = {
    "float16": "f16",
    "float32": "f32",
    "float64": "f64",
    "bfloat16": "bf16",
    "complex32": "c32",
    "complex64": "c64",
    "complex128": "c128",
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "uint8": "u8",
    "uint16": "u16",
    "uint32": "u32",
    "uint64": "u64",
    "half": "f16",
    "float": "f32",
    "double": "f64",
    "long": "i64",
    "int": "i32",
    "short": "i16",
}


def short_type(dtype: str) -> str:
    """`float32` is `f32`; a type without a short form keeps its name."""
    return _SHORT_TYPES.get(dtype, dtype)


def typed_shape(operand: Operand) -> str:
    """`f32[32, 512]`, with `f32[]` for a 0-dim tensor; empty when nothing is known."""
    if not operand.dtype:
        return ""
    return f"{short_type(operand.dtype)}[{', '.join(map(str, operand.shape))}]"


_namers: list[Callable[[str], str | None]] = []


def name_files(namer: Callable[[str], str | None]) -> Callable[[], None]:
    """Ask `namer` first how readers know a file, such as a cell of a notebook; what is returned stops it."""
    _namers.append(namer)
    return lambda: _namers.remove(namer)


def short_path(file: str) -> str:
    """A file as its reader knows it: from the working folder, or from the package it was installed with."""
    for namer in _namers:
        if (name := namer(file)) is not None:
            return name
    if (installed := installed_path(file)) is not None:
        return installed
    try:
        return str(Path(file).relative_to(Path.cwd()))
    except (ValueError, OSError):  # elsewhere, or the working folder is gone
        return file


def harmless(text: str) -> str:
    """Text of a script for a terminal.

    Control characters, which could repaint the screen, are shown by their codes.
    """
    return "".join(_visible(character) for character in text)


def _visible(character: str) -> str:
    if character in "\t\n\r":
        return " "
    if character.isprintable():
        return character
    return character.encode("unicode_escape", "backslashreplace").decode("ascii")
