"""A copy of an installed library in which a patch is applied; the installed one stays as it is.

Every file of the copy is a link to the installed one, but for those that the patch changes.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from pathlib import Path

from evidence.found.case import Case


def overlay(case: Case, folder: Path) -> Path:
    """Make the copy in `folder` and return what belongs on `PYTHONPATH`."""
    for package in {file.partition("/")[0] for file in case.patched}:
        _link(package, folder / package)
    for file in case.patched:
        target = folder / file
        source = target.resolve()
        target.unlink()
        shutil.copyfile(source, target)
    subprocess.run(
        ["git", "apply", "-p1", "--whitespace=nowarn", str(case.patch.resolve())],
        cwd=folder,
        check=True,
        env={**os.environ, "GIT_CEILING_DIRECTORIES": str(folder.parent)},
    )
    return folder


def _link(package: str, folder: Path) -> None:
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit(f"{package} is not installed")
    installed = Path(spec.submodule_search_locations[0])
    for place, folders, files in os.walk(installed):
        folders[:] = [each for each in folders if each != "__pycache__"]
        here = folder / Path(place).relative_to(installed)
        here.mkdir(parents=True, exist_ok=True)
        for name in files:
            (here / name).symlink_to(Path(place) / name)
