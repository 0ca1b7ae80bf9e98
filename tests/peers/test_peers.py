"""The harness around neighbours' suites, and a sample of one: a whole file of accelerate's tests, as it was
released.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from evidence.environments.overlays import OverlayError, environment
from evidence.peers import stand_ins
from evidence.peers.peer_reasons import Outcome, explained, unaccounted
from evidence.peers.peers import PeerError, read_report, source_folder, table, wanting_several

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "evidence" / "peers"
REPORT = """<testsuites><testsuite>
<testcase classname="tests.test_a.Case" name="test_good"><properties><property name="stand_in" value="gpt2"/></properties></testcase>
<testcase classname="tests.test_a.Case" name="test_bad"><failure message="RuntimeError: two
 devices">trace</failure></testcase>
<testcase classname="tests.test_a.Case" name="test_bad"/>
<testcase classname="tests.test_a" name="test_away[1]"><skipped message="needs a hub"/></testcase>
</testsuite></testsuites>"""  # noqa: E501  # a text, line by line


def test_the_worst_entry_of_a_test_counts(tmp_path):
    (tmp_path / "report.xml").write_text(REPORT)
    assert read_report(tmp_path / "report.xml", "tests/test_a.py") == {
        "tests/test_a.py::Case::test_good": Outcome("passed", "", stand_in=True),
        "tests/test_a.py::Case::test_bad": Outcome("failed", "RuntimeError: two  devices"),
        "tests/test_a.py::test_away[1]": Outcome("skipped", "needs a hub"),
    }


def test_a_test_without_a_reason_and_a_reason_without_a_test_are_told():
    machine = {
        "a::one": Outcome("failed", "no  hub\nhere"),
        "a::two": Outcome("skipped", "other"),
        "a::three": Outcome("passed", ""),
    }
    known = {"said: no hub*": "needs a hub", "a::three": "theirs"}
    assert explained("a::one", machine["a::one"], known) == "said: no hub*"
    assert explained("a::one", machine["a::one"], {**known, "a::o*": "x", "a::one": "y"}) == "a::one"
    assert [line.split(":")[0] for line in unaccounted(machine, known)] == [
        "no reason given",
        "a reason is given, but no such test is left",
    ]
    assert len(unaccounted(machine, known, whole=False)) == 1


def test_tests_that_ask_for_several_devices_are_found_by_their_decorators(tmp_path):
    (tmp_path / "test_a.py").write_text(
        "@require_multi_gpu\nclass A:\n    def test_one(self): ...\nclass B:\n    "
        "@require_torch_multi_accelerator\n    def test_two(self): ...\n    def test_three(self): "
        "...\n@require_multi_device\ndef test_four(): ...\n"
    )
    several = wanting_several(tmp_path, ["test_a.py"])
    assert several == {"test_a.py::A::test_one", "test_a.py::B::test_two", "test_a.py::test_four"}
    passed = Outcome("passed", "")
    machine = {
        "test_a.py::A::test_one": passed,
        "test_a.py::B::test_two_0_x": passed,
        "test_a.py::B::test_two_1_y": Outcome("failed", ""),
    }
    lines = table({"test_a.py::A::test_one": Outcome("skipped", "multiple")}, machine, "2x24GB", several)
    assert "1 of 3 pass" in lines[3]


def test_a_stand_in_loads_by_its_name(tmp_path, monkeypatch):
    monkeypatch.setenv("SAMEDEVICE_CACHE", str(tmp_path))
    name = "peft-internal-testing/tiny-random-LlamaForCausalLM"
    cache = stand_ins.ensure([name])
    program = (
        "import sys\nfrom transformers import AutoModelForCausalLM, AutoTokenizer\n"
        "t = AutoTokenizer.from_pretrained(sys.argv[1]); m = "
        "AutoModelForCausalLM.from_pretrained(sys.argv[1])\n"
        "print(type(m).__name__, t.decode(t('naïve 中文')['input_ids']))"
    )
    variables = {**os.environ, "HF_HUB_CACHE": str(cache), "HF_HUB_OFFLINE": "1", "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(
        [sys.executable, "-c", program, name], env=variables, capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "LlamaForCausalLM naïve 中文", done.stderr


def test_reasons_are_sentences():
    for suite in json.loads((PACKAGE / "peer_reasons.json").read_text("utf-8")).values():
        for key, reason in suite.items():
            assert key and len(reason.split()) > 2


@pytest.mark.long
def test_a_released_suite_passes_on_the_machine(tmp_path):
    """accelerate's hooks: on the plain CPU three of these tests are skipped for want of a second device."""
    try:
        folder = source_folder("accelerate", importlib.metadata.version("accelerate"))
        variables = environment({"parameterized": "0.9.0"})
    except (OverlayError, PeerError) as error:
        pytest.skip(str(error))
    report = tmp_path / "report.xml"
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:samedevice",
        "-p",
        "samedevice.pytest_plugin",
        "--machine=2x24GB",
    ]
    command += [
        "-p",
        "no:cacheprovider",
        "-o",
        "junit_family=xunit1",
        f"--junit-xml={report}",
        "tests/test_hooks.py",
    ]
    variables |= {
        "PYTHONPATH": os.pathsep.join([variables["PYTHONPATH"], str(ROOT / "src")]),
        "PYTHONHASHSEED": "0",
    }
    done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False)
    outcomes = read_report(report, "tests/test_hooks.py")
    assert len(outcomes) >= 15 and {outcome.outcome for outcome in outcomes.values()} == {"passed"}, (
        done.stdout
    )
