"""A case: a folder with the script, the patch, what was seen, and the reading of the code.

Files: `script.py` (at most twenty lines, public loading code), `patch.diff` (against the folder in which the
library is installed), `seen.json` (the finding as `samedevice run --json` wrote it, the classes that the
sweep lists under it, and the releases to which the patch applies unchanged), `reading.toml` (what a user does
to meet it, and why the code is wrong).
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CASES = Path(__file__).parent / "cases"


@dataclass(frozen=True, slots=True)
class Case:
    """One root cause in a release."""

    name: str
    folder: Path
    seen: Mapping[str, Any]
    reading: Mapping[str, Any]

    @property
    def script(self) -> Path:
        """The program that shows it."""
        return self.folder / "script.py"

    @property
    def patch(self) -> Path:
        """The repair."""
        return self.folder / "patch.diff"

    @property
    def patched(self) -> tuple[str, ...]:
        """The files that the patch changes, below the folder in which libraries are installed."""
        lines = self.patch.read_text("utf-8").splitlines()
        return tuple(line.removeprefix("+++ b/") for line in lines if line.startswith("+++ b/"))


def cases(pattern: str = "") -> list[Case]:
    """All cases whose name contains `pattern`, in their order."""
    return [
        Case(
            folder.name,
            folder,
            json.loads((folder / "seen.json").read_text("utf-8")),
            tomllib.loads((folder / "reading.toml").read_text("utf-8")),
        )
        for folder in sorted(CASES.iterdir())
        if folder.is_dir() and pattern in folder.name
    ]
