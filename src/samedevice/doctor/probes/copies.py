"""The test of copies between GPUs, in a child process with a time limit."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from samedevice.doctor.facts import Copied, CopyTest, Facts, Unread
from samedevice.doctor.host import Host
from samedevice.messages import Phrase

CHILD = Path(__file__).with_name("copies_child.py")
SIZE = 16 << 20
"""Bytes of one pattern; a driver moves more than 1 MiB by its copy engines."""
_START = 60.0
"""Seconds for torch to start, beside those of the test."""


def compare_copies(host: Host, facts: Facts, seconds: float, size: int = SIZE) -> Facts:
    """Copy between all GPUs that torch sees, and note what came back."""
    # As text: a virtual machine takes a file of this package for its own, and would find nobody who calls.
    program = CHILD.read_text("utf-8")
    answer = host.run([host.python, "-c", program, f"{seconds:g}", str(size)], seconds + _START)
    results = [found for line in answer.output.splitlines() if (found := _result(line)) is not None]
    copied = tuple(
        Copied(row["pair"][0], row["pair"][1], row["bytes"], row["wrong"], row["first"])
        for row in results
        if "wrong" in row
    )
    trouble = next((str(row["trouble"]) for row in results if "trouble" in row), "")
    done = any(row.get("done") for row in results) and not any(row.get("skipped") for row in results)
    tested = replace(facts, copies=CopyTest(copied, done, trouble))
    if done:
        return tested
    if answer.failure is not None:
        why = answer.failure
    else:
        said = trouble or " ".join(answer.errors.split())[-300:] or "?"
        why = Phrase("doctor.copies-stopped", tested=len(copied), said=said)
        if not trouble and any(row.get("skipped") for row in results):
            why = Phrase("doctor.copies-late", tested=len(copied), seconds=f"{seconds:g}")
    return replace(tested, unread=(*tested.unread, Unread("copies", why)))


def _result(line: str) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
