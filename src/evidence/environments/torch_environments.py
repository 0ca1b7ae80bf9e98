"""Environments with one release of torch each, made with uv."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

from evidence.places import ROOT, SOURCES

PINNED, NEWEST = "pinned", "newest"
"""Names for the torch of constraints.txt and for the newest one."""


def torch_environment(folder: Path, torch: str, packages: Iterable[str], python: str = sys.executable) -> str:
    """The Python of an environment with `torch` and `packages`, these as constraints.txt has them; made where
    it is not whole yet. Packages that it lacks are added.
    """
    inside, whole = folder / "bin" / "python", folder / "whole"
    pins = constraints()
    if torch == NEWEST:
        del pins["torch"]
    elif torch != PINNED:
        pins["torch"] = torch
    wanted = [f"{name}=={pins[name]}" if name in pins else name for name in ("torch", *packages)]
    if not whole.exists():
        subprocess.run(["uv", "venv", "--quiet", "--clear", "--python", python, str(folder)], check=True)
    if not whole.exists() or whole.read_text(encoding="utf-8").split() != wanted:
        subprocess.run(
            ["uv", "pip", "install", "--quiet", "--compile-bytecode", "--python", str(inside), *wanted],
            check=True,
        )
        whole.write_text("\n".join(wanted), encoding="utf-8")
    return str(inside)


def constraints() -> dict[str, str]:
    """The version of each package that development uses."""
    text = (ROOT / "constraints.txt").read_text(encoding="utf-8")
    return dict(re.findall(r"^([\w.-]+)==(\S+)", text, re.MULTILINE))


def variables() -> Mapping[str, str]:
    """What a process needs to import this samedevice, in any environment."""
    paths = [str(SOURCES), str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(paths)}
