"""The harness around PyTorch's own tests, on a small suite of the same form."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from evidence.peers import torch_tests
from evidence.peers.peer_reasons import Outcome
from evidence.peers.torch_tests import compare, outcomes, reasons, table
from evidence.peers.torch_tests_plugin import end_recursion, generic, place

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "evidence" / "peers"
SUITE = """
import os, signal, time, unittest
DEVICE = os.environ["PYTORCH_TESTING_DEVICE_ONLY_FOR"]
ON_GPU = DEVICE == "cuda"

def good(self): pass
def bad(self): assert not ON_GPU, "a text of torch"
def slow(self): time.sleep(90 if ON_GPU else 0)
def dies(self): ON_GPU and os.kill(os.getpid(), signal.SIGKILL)
def cpu_only(self): ON_GPU and self.skipTest("Only runs on cpu")
def wrong(self): assert False, "both"
def expected(self): assert False
def machine(self):
    import torch
    assert torch.cuda.is_available() == ON_GPU

made = dict(good=good, bad=bad, slow=slow, dies=dies, cpu_only=cpu_only, wrong=wrong, machine=machine)
made["expected"] = unittest.expectedFailure(expected)
tests = {f"test_{name}_{DEVICE}_int8": function for name, function in made.items()}
globals()[f"TestA{DEVICE.upper()}"] = type(f"TestA{DEVICE.upper()}", (unittest.TestCase,), tests)
if ON_GPU:
    class TestThere(unittest.TestCase):
        def test_more(self): assert False, "kernels"
"""


@pytest.mark.parametrize(
    ("test", "name"),
    [
        ("a.py::TestACPU::test_x_cpu_float32", "a.py::TestA::test_x_float32"),
        ("a.py::TestACUDA::test_cuda_to_cpu_x_cuda", "a.py::TestA::test_cuda_to_cpu_x"),
        ("a.py::TestACUDA::test_x_cuda_cuda_int8", "a.py::TestA::test_x_cuda_int8"),
        ("a.py::TestA::test_cuda_x", "a.py::TestA::test_cuda_x"),
    ],
)
def test_the_generic_name_has_no_device(test, name):
    assert generic(test) == name


def test_both_sides_choose_the_same_tests():
    assert place("a.py::TestACPU::test_x_cpu_float32") == place("a.py::TestACUDA::test_x_cuda_float32")
    assert place("a.py::TestA::test_x") != place("a.py::TestA::test_y")


def test_only_what_the_machine_changes_wants_a_reason():
    passed, skipped = Outcome("passed", ""), Outcome("skipped", "Only runs on cpu")
    plain = {
        "a": passed,
        "b": passed,
        "c": passed,
        "d": passed,
        "e": Outcome("failed", "release"),
        "f": Outcome("skipped", "no GPU"),
    }
    machine = {
        "a": passed,
        "b": Outcome("failed", "x"),
        "c": skipped,
        "e": Outcome("failed", "release"),
        "f": passed,
        "g": Outcome("failed", "y"),
    }
    found = compare(plain, machine)
    assert (found.passed_on_cpu, found.counts, found.versions) == (
        4,
        {"passed": 1, "failed": 1, "skipped": 1, "absent": 1},
        1,
    )
    assert found.only_there == {"passed": 1, "failed": 1}
    assert set(found.open) == {"b", "c", "g"}
    assert "50.0 %" in table({"test_a": found})[-1]


def test_what_was_chosen_and_did_not_run_is_told(tmp_path):
    lines = [
        {"collected": 3, "below": 1.0, "chosen": ["a.py::A::test_x", "a.py::A::test_y"]},
        {"started": "a.py::ACPU::test_x_cpu"},
    ]
    lines.append({"test": "a.py::ACPU::test_x_cpu", "outcome": "passed", "said": "", "seconds": 0.1})
    (tmp_path / "records").write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = outcomes(tmp_path / "records")
    assert {test: one.outcome for test, one in found.items()} == {
        "a.py::A::test_x": "passed",
        "a.py::A::test_y": "not run",
    }


def test_reasons_are_about_files_that_are_run():
    known = json.loads((PACKAGE / "torch_reasons.json").read_text(encoding="utf-8"))
    assert set(known) <= {"any file", *torch_tests.FILES}
    assert reasons("test_cuda")["said: Only runs on cpu"].startswith("right to be skipped")


@pytest.mark.long
def test_a_suite_runs_to_its_end_whatever_its_tests_do(tmp_path):
    (tmp_path / "test").mkdir()
    (tmp_path / "test" / "test_indexing.py").write_text(SUITE)
    (tmp_path / "test" / "conftest.py").write_text("import no_such_module")
    records = tmp_path / "records"
    command = [
        sys.executable,
        "-m",
        "evidence",
        "peers",
        "torch",
        "--checkout",
        str(tmp_path),
        "--file",
        "indexing",
        "--resume",
        str(records),
    ]
    command += ["--test-seconds", "15", "--json", str(tmp_path / "out.json")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1, done.stderr
    found = json.loads((tmp_path / "out.json").read_text())["test_indexing"]["2x24GB"]
    said = {
        test.removeprefix("test_indexing.py::"): (one["outcome"], one["reason"])
        for test, one in found.items()
    }
    assert {test for test, (outcome, _) in said.items() if outcome == "passed"} == {
        f"TestA::test_{name}_int8" for name in ("good", "machine", "expected")
    }
    assert said["TestA::test_bad_int8"] == ("failed", "AssertionError: a text of torch\nassert not True")
    assert "longer than 15 s" in said["TestA::test_slow_int8"][1]
    assert said["TestA::test_dies_int8"] == ("failed", "the process died of SIGKILL")
    assert said["TestA::test_cpu_only_int8"] == ("skipped", "Only runs on cpu")
    numbers = next(line for line in done.stdout.splitlines() if line.startswith("test_indexing ")).split()
    assert numbers[1:] == ["7", "3", "3", "1", "0", "0", "50.0", "%", "0", "1", "0", "1"]
    assert "for the CPU only" in done.stdout
    unexplained = [line for line in done.stdout.splitlines() if line.startswith("no reason given")]
    assert [line.split("::")[-1].split(":")[0] for line in unexplained] == [
        "test_bad_int8",
        "test_dies_int8",
        "test_slow_int8",
        "test_more",
    ]

    written = (records / "test_indexing.2x24GB.jsonl").stat().st_size
    subprocess.run(command, cwd=ROOT, capture_output=True, timeout=300, check=False)
    added = (records / "test_indexing.2x24GB.jsonl").read_text()[written:]
    assert "started" not in added


OLDER_NAMES = """
from evidence.peers.torch_tests_plugin import names_of_older_releases
names_of_older_releases()
from torch.testing._internal import common_cuda, common_methods_invocations, common_mkldnn, common_nn
from torch.testing._internal.common_mkldnn import bf32_on_and_off
assert common_nn.new_module_tests
assert common_methods_invocations.binary_ufuncs_and_refs
if hasattr(common_mkldnn, "tf32_is_not_fp32"):  # torch 2.8 has it nowhere
    assert common_cuda.tf32_is_not_fp32() is False
assert callable(bf32_on_and_off)
"""


@pytest.mark.long
def test_older_files_find_the_names_that_they_import():
    """As in a peer's process: setuptools, which the helpers import, refuses where distutils came first."""
    pytest.importorskip("expecttest", reason="torch's own test helpers import it")
    command = [sys.executable, "-c", OLDER_NAMES]
    variables = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr


def test_a_set_up_that_would_call_itself_for_ever_reaches_its_base():
    class Base:
        calls = 0

        def setUp(self):
            self.calls += 1

    class Old(Base):
        def setUp(self):
            super(self.__class__, self).setUp()
            self.calls += 10

    class OnOneDevice(Old):
        pass

    with pytest.raises(RecursionError):
        OnOneDevice().setUp()
    end_recursion(OnOneDevice)
    end_recursion(OnOneDevice)
    made = OnOneDevice()
    made.setUp()
    assert made.calls == 11
