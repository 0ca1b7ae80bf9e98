"""By what a finding is known again when lines have moved: code, file, statement, operator."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from samedevice.findings import Finding
from samedevice.messages import Phrase
from samedevice.provenance import installed_path


@dataclass(frozen=True, slots=True, order=True)
class Identity:
    """The same for the same mistake; line numbers and folders outside the project are no part of it."""

    code: str
    file: str
    """With `/`, from the root of the project, or from the package that it was installed with."""
    statement: str
    operator: str


def identity_of(finding: Finding[str] | Finding[Phrase], root: Path) -> Identity:
    """The identity of a finding in the project below `root`."""
    place = finding.at
    if place is None:
        return Identity(finding.code, "", "", finding.op or "")
    statement = " ".join(place.code.split()) or place.function
    return Identity(finding.code, file_below(place.file, root), statement, finding.op or "")


def file_below(file: str, root: Path) -> str:
    """A file as every checkout of the project names it."""
    if not file or file.startswith("<"):
        return file
    if (installed := installed_path(file)) is not None:
        return installed
    path = Path(file)
    try:
        return Path(os.path.relpath(path.absolute(), root.absolute())).as_posix()
    except ValueError:  # another drive
        return path.as_posix()
