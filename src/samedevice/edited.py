"""Source files that this process reads otherwise than they stand on disk, so that a change can be tried.

A variable of the environment names a file with the changed texts, so children read them, too.

Must guarantee: nothing is written; what is not named there is read as ever; line numbers, tracebacks and
findings are those of the changed text. Only the standard library is imported: children load this by file.
"""

from __future__ import annotations

import io
import json
import linecache
import os
from collections.abc import Mapping
from functools import cache
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

VARIABLE = "SAMEDEVICE_EDITED"


def edited(path: str) -> bytes | None:
    """The changed content of a file; None for a file that is read from disk."""
    texts = _texts()
    if not texts:
        return None
    text = texts.get(path)
    if text is None:
        text = texts.get(os.path.realpath(path))
    return None if text is None else text.encode()


def content(path: str | Path) -> bytes:
    """What this process reads as the content of a file."""
    changed = edited(str(path))
    return Path(path).read_bytes() if changed is None else changed


def is_trial() -> bool:
    """Whether this process was started to try something."""
    return bool(os.environ.get(VARIABLE))


def write_edits(file: Path, texts: Mapping[str, str]) -> dict[str, str]:
    """Write changed texts, by path, for a child to read; returns the variables that the child needs."""
    file.write_text(json.dumps(dict(texts)), encoding="ascii")
    return {VARIABLE: str(file)}


def read_edited() -> None:
    """Let imports, tracebacks and `linecache` read the changed texts from now on."""
    if not _texts() or getattr(SourceFileLoader, "_reads_edited", False):
        return
    get_code, get_data = SourceFileLoader.get_code, SourceFileLoader.get_data

    def code(self: SourceFileLoader, fullname: str) -> Any:
        path = self.get_filename(fullname)
        changed = edited(path)  # compiled code on disk is that of the old text
        return get_code(self, fullname) if changed is None else self.source_to_code(changed, path)

    def data(self: SourceFileLoader, path: Any) -> bytes:
        changed = edited(os.fsdecode(path))
        return get_data(self, path) if changed is None else changed

    # Python's own loader stands behind every finder that there is: of editable installs, of zoos of versions.
    SourceFileLoader.get_code = code  # type: ignore[method-assign,assignment]
    SourceFileLoader.get_data = data  # type: ignore[method-assign,assignment]
    SourceFileLoader._reads_edited = True  # type: ignore[attr-defined]
    for path, text in _texts().items():  # without a time, an entry is never looked up again on disk
        linecache.cache[path] = (len(text), None, list(io.StringIO(text)), path)


@cache
def _texts() -> dict[str, str]:
    file = os.environ.get(VARIABLE)
    if not file:
        return {}
    texts: dict[str, str] = json.loads(Path(file).read_text("ascii"))
    return texts | {os.path.realpath(path): text for path, text in texts.items()}
