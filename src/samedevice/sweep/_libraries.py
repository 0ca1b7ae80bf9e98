"""Packages that a sweep knows how to take apart."""

from __future__ import annotations

from pathlib import Path

from samedevice.errors import UsageError
from samedevice.messages import Phrase
from samedevice.sweep._case import Library


def library_of(package: str) -> Library:
    """How to sweep a package, or a folder. Raises `UsageError` for one that is not known."""
    if package == "transformers":
        from samedevice.sweep._transformers import TransformersLibrary

        return TransformersLibrary()
    if Path(package).is_dir():
        from samedevice.sweep._folder import FolderLibrary

        return FolderLibrary(Path(package))
    raise UsageError(Phrase("sweep.unknown", package=package, known=", ".join(KNOWN)))


KNOWN = ("transformers",)
