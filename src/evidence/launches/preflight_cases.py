"""`samedevice preflight` refuses the wrong launches of `examples/preflight/` and passes the right ones.

Time: half a minute.
Needs: nothing beside samedevice.

    python -m evidence preflight-cases      # each in a process of its own, as a user would start it
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evidence.commands import command_parser
from evidence.places import ROOT, SOURCES

CASES = ROOT / "examples" / "preflight"
MACHINE = "8xA100-80G"
LIMIT = 5.0
"""Seconds that one judgement may take."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One judged launch."""

    case: str
    refused: bool
    status: int
    codes: tuple[str, ...]
    mode: str
    seconds: float

    @property
    def right(self) -> bool:
        """The verdict is the wanted one, and in time."""
        return self.status == int(self.refused) and self.seconds < LIMIT


def cases() -> list[tuple[Path, bool]]:
    """Folders with a launch, and whether it must be refused."""
    return [
        (folder, kind == "refused")
        for kind in ("refused", "correct")
        for folder in sorted((CASES / kind).iterdir())
        if folder.is_dir()
    ]


def judge(folder: Path, refused: bool) -> Outcome:
    """One case, judged by the command."""
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("CUDA_VISIBLE_DEVICES", "RANK", "WORLD_SIZE")
    }
    environment["PYTHONPATH"] = str(SOURCES)
    command = [
        sys.executable,
        "-m",
        "samedevice",
        "preflight",
        "launch.sh",
        "--machine",
        MACHINE,
        "--json",
        "/dev/stdout",
        "--lang",
        "en",
    ]
    started = time.perf_counter()
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    seconds = time.perf_counter() - started
    document: Any
    document, _ = (
        json.JSONDecoder().raw_decode(done.stdout)
        if done.stdout.startswith("{")
        else ({"findings": [], "mode": {"name": done.stderr}}, 0)
    )
    codes = tuple(finding["code"] for finding in document["findings"])
    return Outcome(
        f"{folder.parent.name}/{folder.name}",
        refused,
        done.returncode,
        codes,
        document["mode"]["name"],
        seconds,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a row for each case."""
    command_parser(__name__, __doc__).parse_args(arguments)
    outcomes = [judge(folder, refused) for folder, refused in cases()]
    print(f"{'case':32} {'mode':22} {'verdict':16} {'seconds':>7}")
    for outcome in outcomes:
        verdict = " ".join(outcome.codes) or "passed"
        print(
            f"{outcome.case:32} {outcome.mode:22} {verdict:16} "
            f"{outcome.seconds:7.2f}{'' if outcome.right else '  WRONG'}"
        )
    right = sum(outcome.right for outcome in outcomes)
    print(
        f"{right} of {len(outcomes)} right on {MACHINE}; the slowest took "
        f"{max(outcome.seconds for outcome in outcomes):.2f} s"
    )
    return 0 if right == len(outcomes) else 1
