"""Reading files that nobody vouches for: bounded, decoded, never run."""

from __future__ import annotations

from pathlib import Path

from samedevice.errors import UsageError
from samedevice.messages import Language, say

LARGEST = 2_000_000
"""Bytes; scripts and configurations are far smaller."""


def read_text(path: Path, language: Language = "en") -> str:
    """The text of a file; raises `UsageError` when it is missing, too large, or no text."""
    try:
        if not path.is_file():
            raise UsageError(say("preflight.no-file", language, path=path))
        if path.stat().st_size > LARGEST:
            raise UsageError(say("preflight.too-large", language, path=path, most=LARGEST))
        content = path.read_bytes()
    except OSError as error:
        raise UsageError(
            say("preflight.unreadable", language, path=path, reason=error.strerror or error)
        ) from None
    if b"\0" in content:
        raise UsageError(say("preflight.binary", language, path=path))
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise UsageError(say("preflight.binary", language, path=path)) from None
