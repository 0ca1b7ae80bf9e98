"""Scripts of root causes, written out and run.

Must guarantee: a script is called confirmed only where a run of it on a virtual machine met the very
statement; a script that hangs is ended.
"""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from samedevice.sweep._causes import library_path
from samedevice.sweep._pool import Order
from samedevice.sweep._sweep import Root


@dataclass(frozen=True, slots=True)
class Script:
    """The smallest program of a root cause."""

    root: str
    statement: str
    path: Path
    confirmed: bool
    """Whether a run of it met the statement."""


def write_scripts(
    roots: Iterable[Root], scripts: Mapping[str, str], folder: Path, order: Order
) -> Iterator[Script]:
    """Write and run the script of each root cause that has one; `scripts` has them by statement."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, root in enumerate(roots, 1):
        statement = next((each for each in root.statements if each in scripts), None)
        if statement is None:
            continue
        words = re.findall(r"[a-z0-9]+", root.key.lower())[:6]
        path = folder / f"{number:03}-{'-'.join(words)[:50]}.py"
        path.write_text(scripts[statement], "utf-8")
        yield Script(root.key, statement, path, statement in _met(path, root, order))


def _met(path: Path, root: Root, order: Order) -> set[str]:
    """The statements that a run of the script finds."""
    machine = next((each["machine"] for each in root.confirmed), order.asked["machines"][0])
    with tempfile.TemporaryDirectory(prefix="samedevice-sweep-") as temporary:
        file = Path(temporary) / "found.json"
        command = [
            order.python,
            "-m",
            "samedevice",
            "run",
            "--machine",
            machine,
            "--json",
            str(file),
            str(path),
        ]
        try:
            subprocess.run(
                command, env=order.environment, timeout=order.seconds, capture_output=True, check=False
            )
            findings = json.loads(file.read_text("utf-8"))["findings"]
        except (OSError, ValueError, subprocess.TimeoutExpired):
            return set()
    places = [finding["at"] for finding in findings if finding["at"]]
    return {f"{library_path(place['file'])}:{place['line']}" for place in places}
