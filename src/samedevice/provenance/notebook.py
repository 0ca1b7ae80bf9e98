"""The code of a notebook as one source, and where each of its lines stands in the notebook's file.

Lines of magic (`%`, `!`) and whole cells of it (`%%bash`) are no Python: they become comments, so that every
line keeps its number.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

_MAGIC = re.compile(r"\s*(?:%|!|\?)|.*\?\s*$")
_PYTHON_CELLS = ("%%time", "%%timeit", "%%capture", "%%prun")


@dataclass(frozen=True, slots=True)
class Notebook:
    """The code cells of a notebook, joined."""

    code: str
    cells: tuple[int, ...]
    """For each line of the code, the number of its cell, from 1, as an editor counts the cells."""
    lines: tuple[int, ...]
    """For each line of the code, its line in the file."""


def read_notebook(text: str) -> Notebook | None:
    """The code of a notebook's JSON; None where it is none, or no Python."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None
    cells = document.get("cells") if isinstance(document, dict) else None
    if not isinstance(cells, list) or not _is_python(document):
        return None
    code: list[str] = []
    numbers: list[int] = []
    places: list[int] = []
    at = 0
    for number, cell in enumerate(cells, 1):
        if not isinstance(cell, dict) or cell.get("cell_type") != "code":
            continue
        for raw, line in _lines(cell.get("source")):
            at = _found(text, raw, at)
            code.append(line)
            numbers.append(number)
            places.append(text.count("\n", 0, at) + 1)
    return Notebook("\n".join(code) + "\n", tuple(numbers), tuple(places))


def _is_python(document: dict[str, Any]) -> bool:
    metadata = document.get("metadata")
    kernel = metadata.get("kernelspec") if isinstance(metadata, dict) else None
    language = kernel.get("language", "python") if isinstance(kernel, dict) else "python"
    return language == "python"


def _lines(source: Any) -> Iterator[tuple[str, str]]:
    """The lines of a cell, as the file has them and as Python reads them."""
    parts = [source] if isinstance(source, str) else source if isinstance(source, list) else []
    texts = [part for part in parts if isinstance(part, str)]
    whole = "".join(texts)
    foreign = whole.lstrip().startswith("%%") and not whole.lstrip().startswith(_PYTHON_CELLS)
    for part in texts:
        for line in part.split("\n") if isinstance(source, str) else [part.rstrip("\n")]:
            indent = line[: len(line) - len(line.lstrip())]
            magic = foreign or (_MAGIC.match(line) is not None and "#" not in line.partition("?")[0])
            yield (
                (part if not isinstance(source, str) else line),
                (f"{indent}pass  # {line.strip()}" if magic else line),
            )


def _found(text: str, raw: str, start: int) -> int:
    """Where the file has a line of a cell, behind the one before it; where it is not found, there."""
    for spelled in (json.dumps(raw)[1:-1], json.dumps(raw, ensure_ascii=False)[1:-1]):
        at = text.find(spelled, start) if spelled else start
        if at >= 0:
            return at + len(spelled)
    return start
