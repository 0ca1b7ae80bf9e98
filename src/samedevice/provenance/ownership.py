"""Which files belong to the project of a program: its author may change them."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

from samedevice.provenance._frames import installed_path

_PROJECT = ("pyproject.toml", "setup.py", "setup.cfg", ".git")


def ownership(script: str | None) -> Callable[[str], bool]:
    """Whether a file is part of the user's project: that of the program, and of no installed package.

    The project is all below the nearest folder that has one of the usual files.
    """
    root = _root(str(Path.cwd() if script is None else Path(script).parent))

    def owned(file: str) -> bool:
        path = Path(file).resolve()
        if installed_path(file) is not None or installed_path(str(path)) is not None:
            return False
        if not path.is_relative_to(root) or not path.is_file():
            return False
        return not any(part.startswith(".") for part in path.relative_to(root).parts)

    return owned


@lru_cache(maxsize=16)
def _root(folder: str) -> Path:
    home = Path(folder).resolve()
    return next(
        (each for each in (home, *home.parents) if any((each / name).exists() for name in _PROJECT)), home
    )
