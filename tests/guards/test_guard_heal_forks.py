"""Programs of the heal proof in processes of their own: deaths, limits, no touch of CUDA before a fork."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from evidence.healing import program_forks
from evidence.healing.program_forks import Setting, outcomes

ROOT = Path(__file__).parents[2]


@pytest.fixture
def judged(monkeypatch):
    """Sets what becomes of a program, by its number."""

    def with_endings(endings):
        monkeypatch.setattr(Setting, "program", lambda self, seed, number: number)
        monkeypatch.setattr(
            program_forks, "outcome", lambda number: endings.get(number, lambda: ("equal", ""))()
        )
        return Setting("nothing")

    return with_endings


@pytest.mark.parametrize("jobs", [1, 3])
def test_each_program_has_one_outcome_whoever_dies(judged, jobs, capfd):
    def dies():
        os.kill(os.getpid(), signal.SIGKILL)

    def breaks():
        raise ValueError("of our own")

    setting = judged({3: dies, 4: dies, 250: breaks, 7: lambda: ("refused", "no")})
    found = list(outcomes(0, range(301), setting, jobs))
    assert sorted(number for number, _ in found) == list(range(301))
    words = {number: word for number, (word, _) in found if word != "equal"}
    assert words == {3: "crashed", 4: "crashed", 250: "crashed", 7: "refused"}
    assert "of our own" in capfd.readouterr().err


def test_the_proof_ends_at_its_deadline(judged):
    setting = judged({5: lambda: time.sleep(600)})
    begin = time.monotonic()
    found = list(outcomes(0, range(10), setting, 1, begin + 2))
    assert time.monotonic() - begin < 30
    assert [number for number, _ in found] == [0, 1, 2, 3, 4]


def test_a_program_that_hangs_is_told_and_the_rest_goes_on(judged, monkeypatch):
    monkeypatch.setattr(program_forks, "PATIENCE", 2.0)
    found = dict(outcomes(0, range(10), judged({5: lambda: time.sleep(600)})))
    assert len(found) == 10
    assert found[5][0] == "crashed"


def test_nothing_asks_for_a_gpu_before_the_fork():
    """Who asks CUDA for its devices cannot fork any more; on a computer without a GPU the proof says so."""
    program = """
import os, torch
asked = lambda *rest, **more: print("asked by", os.getpid(), flush=True) or 0
for name in ("is_available", "device_count", "_lazy_init", "init", "current_device"):
    setattr(torch.cuda, name, asked)
from evidence.healing import heal_proof
print("the parent", os.getpid(), flush=True)
heal_proof.main(["--gpu", "--programs", "3", "--jobs", "2"])
"""
    ran = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert "no CUDA GPU here" in ran.stderr
    parent = ran.stdout.partition("the parent ")[2].splitlines()[0]
    asked = [line.removeprefix("asked by ") for line in ran.stdout.splitlines() if "asked by" in line]
    assert asked
    assert parent not in asked
