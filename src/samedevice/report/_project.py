"""Where findings are in a project, for tools that know a repository and not this machine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from samedevice.events import Place
from samedevice.findings import Finding
from samedevice.messages import Phrase
from samedevice.provenance import installed_path


def project_root(environment: Mapping[str, str]) -> Path:
    """The folder of the repository: the workspace of a GitHub job, else the nearest one with `.git`, else
    the working directory.
    """
    here = Path.cwd().resolve()
    if workspace := environment.get("GITHUB_WORKSPACE"):
        root = Path(workspace).resolve()
        if here.is_relative_to(root):
            return root
    return next((folder for folder in (here, *here.parents) if (folder / ".git").exists()), here)


def place_in_project(finding: Finding[str | Phrase], root: Path) -> Place | None:
    """The failing statement, or the statement of the project that led to it where that is elsewhere."""
    places = [place for place in (finding.at, finding.user_at) if place is not None and place.file]
    inside = [place for place in places if path_below(place.file, root) is not None]
    return next(iter([*inside, *places]), None)


def path_below(file: str, root: Path) -> str | None:
    """A file as the repository names it, with `/`; None for one that is no part of it."""
    if not file or file.startswith("<") or installed_path(file) is not None:
        return None
    try:
        return Path(file).resolve().relative_to(root).as_posix()
    except (ValueError, OSError):
        return None
