"""Running a program again, in a process of its own, with changed sources that are on no disk.

Must guarantee: no file of the user's is changed by the trial itself. What the program writes it writes again,
as with every run; that is why a trial runs only where it was asked for.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from samedevice.edited import write_edits

Json = Mapping[str, Any]
_AT_LEAST = 120.0
"""Seconds that every trial gets."""
_PATIENCE = 15.0
"""Seconds in which a trial that is stopped may end what it started."""
_SLOWER = 5.0
"""How many times as long as the first run it may take, imports of the new process included."""


@dataclass(frozen=True, slots=True)
class Again:
    """A command as it was given, to be given again: taken before the program can change anything of it."""

    options: tuple[str, ...]
    words: tuple[str, ...]
    """`-m MODULE` or the program, with its arguments."""
    machine: str
    folder: str
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Ran:
    """How a trial ended."""

    status: str
    """Of the JSON document; `timeout` or `no-report` where there is none."""
    code: int
    findings: tuple[Json, ...]
    said: str
    """The last line on standard error."""
    again: int | None = None
    """Bytes that went from device to device again though nothing of them had changed; None where nobody
    counted.
    """

    @property
    def clean(self) -> bool:
        """Whether it ran to its end, and nothing was found."""
        return self.code == 0


def run_again(again: Again, texts: Mapping[str, str], machine: str, first: float) -> Ran:
    """Run the program on a machine with changed texts, by path; `first` is how long the first run took."""
    with tempfile.TemporaryDirectory(prefix="samedevice-trial-") as folder:
        report, errors = Path(folder) / "report.json", Path(folder) / "errors.txt"
        words = [sys.executable, "-m", "samedevice", "run", "--quiet", "--machine", machine]
        words += ["--json", str(report), *again.options, *again.words]
        environment = {**again.environment, **write_edits(Path(folder) / "edited.json", texts)}
        with errors.open("wb") as stream:
            child = subprocess.Popen(
                words,
                cwd=again.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stream,
            )
            code = _wait(child, max(_AT_LEAST, _SLOWER * first))
        said = [line for line in errors.read_text("utf-8", "replace").splitlines() if line.strip()]
        try:
            document = json.loads(report.read_text("utf-8"))
        except (OSError, ValueError):
            return Ran("no-report" if code is not None else "timeout", -1, (), said[-1] if said else "")
    if code is None:
        return Ran("timeout", -1, (), "")
    copies = document.get("copies") or {}
    last = said[-1] if said else ""
    return Ran(document["status"], code, tuple(document["findings"]), last, copies.get("again_nbytes"))


def _wait(child: subprocess.Popen[bytes], limit: float) -> int | None:
    """The exit status; None for a child that took too long."""
    try:
        return child.wait(limit)
    except subprocess.TimeoutExpired:
        return None
    finally:  # also where Ctrl-C ends the waiting
        if child.poll() is None:
            child.terminate()  # it ends its own children, too
            try:
                child.wait(_PATIENCE)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()


def here(machine: str, options: tuple[str, ...], words: tuple[str, ...]) -> Again:
    """The command as it stands now."""
    return Again(options, words, machine, os.getcwd(), dict(os.environ))  # noqa: PTH109 # as a text
