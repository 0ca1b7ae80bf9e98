"""Reading files that nobody vouches for: bounded, decoded, never run."""

from __future__ import annotations

import os
from pathlib import Path

from samedevice.errors import UsageError
from samedevice.messages import Phrase

LARGEST = 2_000_000
"""Bytes; scripts and configurations are far smaller."""


def expanded(path: str | os.PathLike[str]) -> Path:
    """A path that somebody wrote, with the folder that `~` is; as written, where nobody has that one."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)


def read_text(path: Path) -> str:
    """The text of a file; raises `UsageError` when it is missing, too large, or no text."""
    try:
        if not path.is_file():
            raise UsageError(Phrase("preflight.no-file", path=str(path)))
        if path.stat().st_size > LARGEST:
            raise UsageError(Phrase("preflight.too-large", path=str(path), most=LARGEST))
        content = path.read_bytes()
    except OSError as error:
        raise UsageError(
            Phrase("file.unreadable", path=str(path), reason=error.strerror or str(error))
        ) from None
    if b"\0" in content:
        raise UsageError(Phrase("preflight.binary", path=str(path)))
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError(Phrase("preflight.binary", path=str(path))) from None
