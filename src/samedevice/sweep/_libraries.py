"""Packages that a sweep knows how to take apart."""

from __future__ import annotations

from pathlib import Path

from samedevice.errors import UsageError
from samedevice.messages import Phrase
from samedevice.sweep._case import Library
from samedevice.sweep._layers import layer_packages
from samedevice.sweep._packages import built_packages


def library_of(package: str) -> Library:
    """How to sweep a package, or a folder. Raises `UsageError` for one that is not known."""
    if package == "transformers":
        from samedevice.sweep._transformers import TransformersLibrary

        return TransformersLibrary()
    if package == "diffusers":
        from samedevice.sweep._diffusers import DiffusersLibrary

        return DiffusersLibrary()
    if package == "peft":
        from samedevice.sweep._peft import PeftLibrary

        return PeftLibrary()
    if package in ("sentence-transformers", "sentence_transformers"):
        from samedevice.sweep._sentences import SentencesLibrary

        return SentencesLibrary()
    if package in built_packages():
        from samedevice.sweep._built import BuiltLibrary

        return BuiltLibrary(package)
    if package in layer_packages():
        from samedevice.sweep._layers import LayersLibrary

        return LayersLibrary(package)
    if Path(package).is_dir():
        from samedevice.sweep._folder import FolderLibrary

        return FolderLibrary(Path(package))
    raise UsageError(Phrase("sweep.unknown", package=package, known=", ".join(KNOWN)))


KNOWN = ("transformers", "diffusers", "peft", "sentence-transformers", *built_packages(), *layer_packages())
