"""The recorder and the replay run on a virtual machine, so that both are ready when there is a GPU."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("expecttest", reason="torch's own test helpers import it")

from evidence.engine import op_cases, record_rules, replays, rule_cases  # only when their imports are there

ROOT = Path(__file__).parents[2]
EVERY = 30
"""Every so many operators, which takes some eight seconds; `python -m evidence replay-rules` takes all."""


def names() -> list[str]:
    return list(op_cases.operators())[::EVERY]


def test_a_case_has_a_name_and_back():
    case = rule_cases.Case("nn.functional.linear", "call", 3, 1, True)
    assert case.key == "nn.functional.linear|call|3|1|0"
    assert rule_cases.case_of(case.key) == case


def test_the_tables_own_predictions_replay_without_a_fault(capsys):
    """What is predicted is refused, accepted or not checked; nothing breaks, and a second run agrees with the
    first.
    """
    recordings = replays.newest()
    recorded = replays.load(recordings[-1])[1] if recordings else None
    families = replays.compare(recorded, names())
    replays.show(families, 20)
    print(
        f"agreement with {recordings[-1].name if recordings else 'its own predictions'}, every {EVERY}th "
        "operator"
    )
    cases = sum(each.cases for each in families.values())
    agreeing = sum(each.outcome for each in families.values())
    assert cases > len(names())
    assert agreeing / cases >= (0.995 if recordings else 1.0), capsys.readouterr().out
    assert replays.broken(recorded, families) == []


def test_every_refusal_says_which_devices():
    """No refusal comes from a Python exception of our own."""
    for name in (
        "add",
        "cat",
        "nn.functional.linear",
        "index_put",
        "where",
        "nn.functional.conv2d",
        "scatter",
    ):
        for key, result in replays.replay(name, None).items():
            if result["outcome"] == "error":
                assert result["type"] == "RuntimeError", (key, result)
                assert "device" in result["message"] or "should be the same" in result["message"], (
                    key,
                    result,
                )


def test_a_recording_is_made_stopped_and_gone_on_with(tmp_path):
    recording = tmp_path / "virtual.json.gz"
    command = [
        sys.executable,
        "-m",
        "evidence",
        "record-rules",
        str(recording),
        "--self-check",
        "--only",
        "nn.functional.linear",
    ]
    environment = {"PYTHONPATH": str(ROOT / "src"), "PATH": "/usr/bin:/bin"}

    def record(*more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*command, *more],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    stopped = record("--minutes", "0")
    assert stopped.returncode == 4, stopped.stderr
    assert not recording.exists()
    journal = tmp_path / "virtual.json.virtual.partial.jsonl"
    done = {
        "key": "nn.functional.linear|call|0|0|n",
        "outcome": "crash",
        "type": "",
        "message": "died of signal 6",
    }
    journal.write_text(json.dumps(done) + '\n{"key": "half a li', encoding="utf-8")
    went_on = record()
    assert went_on.returncode == 0, went_on.stderr
    assert not journal.exists()
    about, results = replays.load(recording)
    assert about["gpu"] == "virtual"
    assert (
        results.pop("nn.functional.linear|call|0|0|n")["message"] == "died of signal 6"
    )  # kept, not run again
    assert {result["outcome"] for result in results.values()} <= {"ok", "error", "skip"}
    assert len(results) > 5
    with gzip.open(recording, "rt", encoding="utf-8") as file:
        assert json.load(file)["format"] == record_rules.FORMAT


def test_a_disagreement_is_seen():
    real = {"nn.functional.linear|call|0|1|n": {"outcome": "ok", "devices": ["cuda:0"]}}
    families = replays.compare(real, ["nn.functional.linear"])
    assert families["nn.functional"].cases == 1
    assert families["nn.functional"].outcome == 0
    assert "wrapper_CUDA_addmm" in families["nn.functional"].different[0]
