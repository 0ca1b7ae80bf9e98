"""Programs with a bug, released ones and small ones alike, and what a virtual machine reports of one."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evidence.bugs.programs import PROGRAMS
from evidence.zoo.zoo import Case, environment_with

NO_REPORT = (subprocess.TimeoutExpired, OSError, ValueError)
"""What `reported` raises where a run was stopped or left no report."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A program with a bug, and the package versions that it runs with."""

    group: str
    name: str
    script: Path
    machine: str
    """One on which it has the bug."""
    pins: Mapping[str, str]


def released(case: Case) -> Subject:
    """A case of the zoo with its bad version."""
    return Subject("zoo", case.id, case.script, case.machine, case.pins["bad"])


def small() -> list[Subject]:
    """The small programs of `seen`, by their names."""
    return [
        Subject("programs", script.stem, script, "2x24GB", {})
        for script in sorted((PROGRAMS / "seen").glob("*.py"))
    ]


def reported(
    subject: Subject, machine: str, option: str, scratch: Path, limit: float
) -> tuple[Path, dict[str, Any]]:
    """A copy of the program in `scratch`, and what `samedevice run` with an option reports of that copy.

    Raises one of `NO_REPORT`, also after `limit` seconds.
    """
    script, report = scratch / subject.script.name, scratch / "report.json"
    script.write_bytes(subject.script.read_bytes())
    words = ["run", "--machine", machine, option, "--json", str(report), str(script)]
    subprocess.run(
        [sys.executable, "-m", "samedevice", *words],
        cwd=scratch,
        env=environment_with(subject.pins),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        timeout=limit,
    )
    document: dict[str, Any] = json.loads(report.read_text("utf-8"))
    return script, document
