"""The recorder runs on a virtual machine, so that it is ready when there is a GPU."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("expecttest", reason="torch's own test helpers import it")

from evidence.engine import recordings, rule_cases
from evidence.engine.recorders import Worker
from evidence.engine.recordings import Journals
from tests.warm_python import CHILDREN, TORCH, warm_python

ROOT = Path(__file__).parents[2]
LINEAR = "nn.functional.linear"


@pytest.fixture
def recording(tmp_path):
    return tmp_path / "virtual.json.gz"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """What a run of the recorder comes to; torch's tables of operators are loaded when it starts."""

    def record(recording: Path, *more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [python, *command(recording, *more)[1:]],
            cwd=ROOT,
            env={**environment(), CHILDREN: python},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    with warm_python(tmp_path_factory.mktemp("warm"), (*TORCH, "evidence.engine.rule_cases")) as python:
        yield record


def command(recording: Path, *more: str) -> list[str]:
    return [sys.executable, "-m", "evidence", "record-rules", str(recording), "--self-check", *more]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT / "src")}


def test_a_recording_is_made_stopped_and_gone_on_with(recording, recorded):
    stopped = recorded(recording, "--only", LINEAR, "--minutes", "0")
    assert stopped.returncode == 4, stopped.stderr
    assert not recording.exists()
    key = f"{LINEAR}|call|0|0|n"
    journals = Journals(recording, virtual=True)
    with journals.noting(7) as note:
        note(key=key, outcome="crash", type="", message="died of signal 6")
    with journals.of(7).open("a", encoding="utf-8") as file:
        file.write('{"key": "half a li')
    went_on = recorded(recording, "--only", LINEAR, "--jobs", "2")
    assert went_on.returncode == 0, went_on.stderr
    assert journals.paths() == []
    found = recordings.load(recording)
    assert found.machine["gpu"] == "virtual"
    assert found.results.pop(key)["message"] == "died of signal 6"  # kept, not run again
    assert {result["outcome"] for result in found.results.values()} <= {"ok", "error", "skip"}
    assert len(found.results) > 5
    assert {rule_cases.case_of(key).sample_key for key in found.results} <= found.samples.keys()
    with gzip.open(recording, "rt", encoding="utf-8") as file:
        assert json.load(file)["format"] == recordings.FORMAT


@pytest.mark.long
def test_a_run_that_is_ended_packs_what_it_has_and_another_goes_on(recording, recorded):
    """One worker is killed from outside first, which says nothing of its case."""
    journals = Journals(recording, virtual=True)
    process = subprocess.Popen(
        command(recording, "--only", "linalg", "--jobs", "2"), cwd=ROOT, env=environment()
    )
    try:
        await_results(journals, 1)
        os.kill(children(process.pid)[0], signal.SIGKILL)
        await_results(journals, 3)
        workers = children(process.pid)
        process.terminate()
        assert process.wait(60) == 4
    finally:
        process.kill()
        process.wait()
    assert not [worker for worker in workers if Path(f"/proc/{worker}").exists()]
    half = recordings.load(recording).results
    assert len(half) >= 3
    recording.unlink()
    assert recorded(recording, "--pack").returncode == 4
    assert recordings.load(recording).results == half
    went_on = recorded(recording, "--only", "linalg")
    assert went_on.returncode == 0, went_on.stderr
    whole = recordings.load(recording).results
    assert half.items() <= whole.items()
    assert len(whole) > len(half)
    assert not [result for result in whole.values() if "signal" in result.get("message", "")]


def await_results(journals: Journals, count: int) -> None:
    deadline = time.monotonic() + 120
    while len(journals.read().results) < count:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def children(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.parametrize(
    ("died", "noted"),
    [
        (-signal.SIGSEGV, ["died of signal 11"]),
        (-signal.SIGKILL, []),
        (1, []),
    ],
)
def test_a_case_is_blamed_for_a_fault_only(recording, died, noted):
    """The process was at a case when it ended."""
    journals = Journals(recording, virtual=True)
    worker = Worker(0, journals, "", pipe=0, jobs=1)
    worker.process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            f"import os, sys; print('operator add', 'at add|call|0|0|n', sep=chr(10), "
            f"flush=True); {'sys.exit(1)' if died > 0 else f'os.kill(os.getpid(), {-died})'}",
        ],
        stdout=subprocess.PIPE,
        bufsize=0,
    )
    while worker.listen():
        pass
    assert worker.bury()
    assert worker.operator == "add"  # where the next one begins
    assert [result["message"] for result in journals.read().results.values()] == noted
    assert not worker.left_out


def test_an_operator_that_no_worker_outlives_is_left_out(recording, capsys):
    worker = Worker(0, Journals(recording, virtual=True), "", pipe=0, jobs=1, operator="add")
    for _ in range(3):
        worker.process = subprocess.Popen(
            [sys.executable, "-c", "exit(1)"], stdout=subprocess.PIPE, bufsize=0
        )
        while worker.listen():
            pass
        assert worker.bury()
    assert worker.left_out == ["add"]
    assert worker.operator == ""
    assert "ended with 1 3 times at add" in capsys.readouterr().err
