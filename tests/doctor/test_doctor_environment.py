"""`env lock` and `env diff`: what is written, what is never written, and what explains a device error."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import pytest

from evidence.environments.recorded import PROJECT, RecordedHost, environments
from samedevice.cli._answering import WRONG_USAGE
from samedevice.cli._environment import DIFFERENT, SAME, compare_environments, lock_environment
from samedevice.doctor import compared, locked, read_facts, read_locked
from samedevice.doctor.environment import VARIABLES

KNOWN = {each.id: each.description for each in environments()}


def lock_of(folder, name, **changes):
    facts = read_facts(RecordedHost({**KNOWN[name], **changes}), PROJECT)
    path = folder / f"{name}{len(changes)}.json"
    path.write_text(json.dumps(locked(facts)))
    return path


def differences(first, second):
    return {each.what: each for each in compared(read_locked(first), read_locked(second)).differences}


def test_a_machine_and_another_one(tmp_path):
    """S2: it works on eight H200 and fails on two RTX 4090."""
    first, second = (
        lock_of(tmp_path, name) for name in ("eight-h200-tensor-parallel", "two-4090-device-map")
    )
    found = differences(first, second)
    assert found["gpus"].first == "8 x NVIDIA H200"
    assert found["gpus"].second == "2 x NVIDIA GeForce RTX 4090"
    assert found["gpus"].why.key == "environment.gpus"
    assert found["links"].why is None
    assert found["driver"].why is None
    assert found["transformers"].why.key == "environment.bugs"  # 4.57.6 stands before the repairs of 5.0.0
    assert found["accelerate"].why.key == "environment.bugs"
    assert found["peft"].why.key == "environment.one-side"


def test_known_bugs_of_a_library_that_the_other_side_lacks_are_told_as_such(tmp_path):
    name = "eight-h200-tensor-parallel"
    without = {each: version for each, version in KNOWN[name]["packages"].items() if each != "transformers"}
    first = lock_of(tmp_path, name, packages={**without, "transformers": "4.51.3"})
    (tmp_path / "other").mkdir()
    second = lock_of(tmp_path / "other", name, packages=without)
    assert differences(first, second)["transformers"].why.key == "environment.bugs-alone"


def test_the_release_with_a_known_bug_is_named(tmp_path):
    name = "eight-h200-tensor-parallel"
    packages = {**KNOWN[name]["packages"], "transformers": "4.51.3"}
    found = differences(lock_of(tmp_path, name), lock_of(tmp_path, name, packages=packages))
    assert list(found) == ["transformers"]
    both = dict(found["transformers"].why.values)
    assert "Qwen3VL" in dict(both["one"].values)["subjects"].parts
    values = dict(both["other"].values)
    assert values["version"] == "4.51.3"
    assert "Qwen2_5_VL" in values["subjects"].parts


def test_what_only_one_side_is_found_wrong_for(tmp_path):
    name = "eight-b200-cuda-13"
    first = lock_of(tmp_path, name)
    second = lock_of(tmp_path, name, driver="550.163.01", driver_cuda="12.4")
    comparison = compared(read_locked(first), read_locked(second))
    assert comparison.first == ()
    assert [finding.code for finding in comparison.second] == ["SD301"]


def test_only_listed_variables_are_written_and_no_home(tmp_path):
    variables = {
        "HF_TOKEN": "hf_secret",
        "LD_LIBRARY_PATH": "/home/u/lib:/opt/lib",
        "CUDA_VISIBLE_DEVICES": "0",
    }
    path = lock_of(tmp_path, "two-4090-device-map", variables=variables)
    assert "secret" not in path.read_text()
    assert json.loads(path.read_text())["variables"] == {
        "CUDA_VISIBLE_DEVICES": "0",
        "LD_LIBRARY_PATH": "~/lib:/opt/lib",
    }
    assert not any(word in name for name in VARIABLES for word in ("TOKEN_", "KEY", "SECRET", "PASSWORD"))


def test_what_is_read_again_is_what_was_written(tmp_path):
    for name, description in KNOWN.items():
        facts = read_facts(RecordedHost(description), PROJECT)
        path = tmp_path / "a.json"
        path.write_text(json.dumps(locked(facts)))
        again = read_locked(path).facts
        assert locked(replace(again, packages=facts.packages)) == locked(facts), name


def test_the_commands(tmp_path, capsys):
    file, other = tmp_path / "a.json", tmp_path / "b.json"
    assert lock_environment(file, "en") == SAME
    assert lock_environment(file, "en") == SAME  # its own file is written again
    other.write_text(json.dumps({**json.loads(file.read_text()), "python": "3.9.0"}))
    assert compare_environments(file, file, False, "en") == SAME
    assert compare_environments(file, other, False, "en") == DIFFERENT
    capsys.readouterr()
    assert compare_environments(file, other, True, "en") == DIFFERENT
    document = json.loads(capsys.readouterr().out)
    assert [each["what"] for each in document["differences"]] == ["python"]


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"kind": "samedevice environment"}', '{"kind": "samedevice environment", "schema": 1}'],
)
def test_what_is_no_environment_is_refused(tmp_path, capsys, text):
    path = tmp_path / "x.json"
    path.write_text(text)
    assert compare_environments(path, path, False, "en") == WRONG_USAGE
    assert "x.json" in capsys.readouterr().err
    assert lock_environment(path, "en") == WRONG_USAGE
    assert path.read_text() == text


def test_a_lock_on_standard_output():
    words = [sys.executable, "-m", "samedevice", "env", "lock", "-"]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=120)
    assert json.loads(done.stdout)["kind"] == "samedevice environment"
