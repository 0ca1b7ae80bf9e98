"""`--gpu-test` on a virtual machine: right copies are called right, and one changed byte is found."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from samedevice.doctor import Facts, compare_copies, examine
from samedevice.doctor.host import Answer
from samedevice.doctor.probes import copies
from samedevice.messages import Phrase

SOURCES = str(Path(__file__).parents[2] / "src")
PROGRAM = """
import sys
from pathlib import Path

import samedevice.doctor.probes.copies as copies
from samedevice.cli._doctor import judge_environment

copies.SIZE = 1 << 16
copies.compare_copies.__defaults__ = (copies.SIZE,)
copies.CHILD = Path(sys.argv[1])
raise SystemExit(judge_environment(Path(), 60.0, True, "en"))
"""
RIGHT = "    destination.copy_(source)\n"


def judged(folder, change):
    """What `doctor --gpu-test --json` says under `samedevice run`, with a changed copy."""
    program = copies.CHILD.read_text("utf-8")
    assert RIGHT in program
    (folder / "child.py").write_text(program.replace(RIGHT, RIGHT + change))
    (folder / "judge.py").write_text(PROGRAM)
    words = ["-m", "samedevice", "run", "--machine", "2x24GB", "judge.py", "child.py"]
    done = subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": SOURCES},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


@pytest.mark.usefixtures("warm")
def test_right_copies_are_called_right(tmp_path):
    found = judged(tmp_path, "")
    assert [
        (each["source"], each["target"], each["wrong"]) for each in found["facts"]["copies"]["copied"]
    ] == [
        (0, 0, 0),
        (1, 1, 0),
        (0, 1, 0),
        (1, 0, 0),
    ]
    assert found["facts"]["copies"]["done"]
    assert found["findings"] == []


@pytest.mark.usefixtures("warm")
def test_one_changed_byte_on_one_way_is_found(tmp_path):
    found = judged(tmp_path, "    if destination.device.index == 0:\n        destination[4321] ^= 4\n")
    assert [finding["code"] for finding in found["findings"]] == ["SD327"]
    reason = found["findings"][0]["reasons"][0]
    assert reason == (
        "from cuda:1 to cuda:0 6 of 393216 bytes arrived wrong, the first at 4321; no error was raised"
    )


@pytest.mark.own_process
def test_a_copy_that_never_happens_is_found(tmp_path):
    child = copies.CHILD.read_text("utf-8")
    (tmp_path / "child.py").write_text(child.replace(RIGHT, "    return\n"))
    namespace = {"__name__": "child"}
    exec(compile((tmp_path / "child.py").read_text(), "child.py", "exec"), namespace)
    import samedevice as sd

    import torch  # isort: skip

    with sd.machine("2x24GB", on_mismatch="raise"):
        results = list(namespace["tested"](torch, 2, 256, float("inf")))
    assert [result["wrong"] > 0 for result in results] == [False, False, True, True]


class Silent:
    """A host whose child is ended after one pair, as a GPU that hangs would have it."""

    python = "python"

    def run(self, words, seconds):
        line = '{"pair": [0, 1], "bytes": 6, "wrong": 2, "first": 1, "seconds": 0.1}\n'
        return Answer(None, line, failure=Phrase("doctor.too-slow", command="python", seconds="1"))


def test_what_was_seen_before_a_hang_counts():
    examination = examine(compare_copies(Silent(), Facts(), 1))
    assert [finding.code for finding in examination.findings] == ["SD327"]
    assert not examination.facts.copies.done
    assert [each.topic for each in examination.facts.unread] == ["copies"]
