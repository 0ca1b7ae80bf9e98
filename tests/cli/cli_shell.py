"""Running the command line in a process of its own, with and without the stand-in for the engine."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
STAND_IN = [sys.executable, str(HERE / "stand_in.py")]
REAL = [sys.executable, "-m", "samedevice"]


def environment(**more):
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("LC_", "LANG", "PYTHON", "COLUMNS"))
    }
    sources = os.pathsep.join([str(HERE.parents[1] / "src"), str(HERE)])
    return {**kept, "LC_ALL": "C.UTF-8", "PYTHONPATH": sources, **more}


class Shell:
    """A folder with scripts, and commands run in it."""

    def __init__(self, folder, python):
        self.folder = folder
        self.real = [python, "-m", "samedevice"]
        self.started = []

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def call(self, command, env=None, **options):
        return subprocess.run(
            [str(word) for word in command],
            cwd=self.folder,
            env=environment(**(env or {})),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            **options,
        )

    def start(self, *args, env=None):
        process = subprocess.Popen(
            [*STAND_IN, "run", *args],
            cwd=self.folder,
            env=environment(**(env or {})),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.started.append(process)
        return process

    def close(self):
        """End what a failed test left running."""
        for process in self.started:
            process.kill()

    def run(self, *args, **options):
        """`samedevice run ...` with the stand-in."""
        return self.call([*STAND_IN, "run", *args], **options)

    def python(self, *args, **options):
        """`python ...`, to compare with; it finds the same stand-in module."""
        return self.call(
            [sys.executable, *args], {"PYTHONHASHSEED": "0", **options.pop("env", {})}, **options
        )
