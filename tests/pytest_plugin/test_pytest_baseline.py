"""A suite with a baseline fails on new findings only; each test is a program of the file."""

from __future__ import annotations

import json

import pytest

pytest_plugins = ["pytester"]

SUITE = """
import pytest, torch

def mix():
    scale = torch.ones(2, device="cuda:1")
    return torch.ones(2, device="cuda:0") * scale

@pytest.mark.parametrize("time", range(2))
def test_mixes(time):
    mix()

def test_clean():
    pass
"""
ON = ("--machine=2x24GB", "--on-mismatch=record")
KNOWN = "--device-baseline=known.json"
WRITE = "--write-device-baseline"
ENTRY = {
    "program": "pytest test_it.py::test_mixes[0]",
    "code": "SD101",
    "file": "test_it.py",
    "statement": 'return torch.ones(2, device="cuda:0") * scale',
    "operator": "aten.mul.Tensor",
    "count": 1,
}


def entries(pytester):
    return json.loads((pytester.path / "known.json").read_text())["findings"]


@pytest.mark.parametrize("workers", [0, 2])
def test_known_findings_fail_no_test(suite, pytester, workers):
    if workers:
        pytest.importorskip("xdist")
    options = (*ON, KNOWN, *([f"-n{workers}"] if workers else []))
    suite(SUITE, *ON).assert_outcomes(passed=1, failed=2)
    written = suite(SUITE, *options, WRITE)
    written.assert_outcomes(passed=3)
    written.stdout.fnmatch_lines(["wrote the baseline *known.json; findings of all tests: 2"])
    assert entries(pytester) == [ENTRY, {**ENTRY, "program": "pytest test_it.py::test_mixes[1]"}]
    again = suite("# moved\n" + SUITE, *options)
    again.assert_outcomes(passed=3)
    again.stdout.fnmatch_lines(["1 statement ignored, by comments, settings or the baseline"])


def test_a_new_statement_and_a_new_test_are_new(suite, pytester):
    suite(SUITE, *ON, KNOWN, WRITE).assert_outcomes(passed=3)
    more = SUITE.replace("    mix()", "    mix()\n    mix() - torch.ones(2)")
    result = suite(more + "\ndef test_new():\n    mix()\n", *ON, KNOWN)
    result.assert_outcomes(passed=1, failed=3)
    result.stdout.fnmatch_lines(["SD101 cross-device-operands: sub got operands on cuda:0 and cpu*"])
    result.stdout.fnmatch_lines(["SD101 cross-device-operands: mul got operands on cuda:0 and cuda:1*"])
    assert entries(pytester) == [ENTRY, {**ENTRY, "program": "pytest test_it.py::test_mixes[1]"}]


def test_tests_that_did_not_run_keep_their_entries(suite, pytester):
    suite(SUITE, *ON, KNOWN, WRITE)
    repaired = SUITE.replace('device="cuda:1"', 'device="cuda:0"')
    gone = suite(repaired, *ON, KNOWN, "-k", "0")
    gone.assert_outcomes(passed=1, deselected=2)
    gone.stdout.fnmatch_lines(
        ["entries of the baseline that no longer occur: 1; --write-device-baseline removes them"]
    )
    listed = suite(repaired, *ON, KNOWN, "-v", "-k", "0")
    listed.stdout.fnmatch_lines(
        ["pytest test_it.py::test_mixes?0?: no longer occurs: SD101 in test_it.py: return torch.ones*"]
    )
    suite(repaired, *ON, KNOWN, WRITE, "-k", "0")
    assert [each["program"] for each in entries(pytester)] == ["pytest test_it.py::test_mixes[1]"]


def test_a_test_that_fails_on_its_way_keeps_its_entries(suite, pytester):
    suite(SUITE, *ON, KNOWN, WRITE)
    broken = SUITE.replace("    mix()", "    raise ValueError(1)")
    result = suite(broken, *ON, KNOWN)
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.no_fnmatch_line("*no longer occur*")
    suite(broken, *ON, KNOWN, WRITE)
    assert len(entries(pytester)) == 2


def test_the_settings_name_a_baseline(suite, pytester):
    (pytester.path / "pyproject.toml").write_text('[tool.samedevice]\nbaseline = "known.json"\n')
    missing = suite(SUITE, *ON)
    missing.stderr.fnmatch_lines(["*there is no baseline *known.json; --write-device-baseline writes one"])
    assert missing.ret == pytest.ExitCode.USAGE_ERROR
    suite(SUITE, *ON, WRITE).assert_outcomes(passed=3)
    suite(SUITE, *ON).assert_outcomes(passed=3)


def test_a_marked_test_has_its_own_machine_and_its_entry(suite, pytester):
    marked = SUITE.replace(
        "def test_clean", '@pytest.mark.machine("2x16GB", on_mismatch="record")\ndef test_clean'
    ).replace("    pass", "    mix()")
    suite(marked, KNOWN, WRITE, "-k", "clean").assert_outcomes(passed=1, deselected=2)
    assert [each["program"] for each in entries(pytester)] == ["pytest test_it.py::test_clean"]
    suite(marked, "-k", "clean").assert_outcomes(failed=1, deselected=2)
    suite(marked, KNOWN, "-k", "clean").assert_outcomes(passed=1, deselected=2)


def test_tests_that_change_the_folder(suite, pytester):
    moving = SUITE.replace("    mix()", '    import os; os.chdir("/"); mix()')
    suite(moving, *ON, KNOWN, WRITE, "-k", "0")
    assert entries(pytester) == [ENTRY]


def test_what_is_wrong_ends_the_run_before_any_test(suite, pytester):
    no_file = suite(SUITE, *ON, WRITE)
    assert no_file.ret == pytest.ExitCode.USAGE_ERROR
    no_file.stderr.fnmatch_lines(["*--write-device-baseline needs --device-baseline FILE, or baseline in *"])
    (pytester.path / "known.json").write_text("[]")
    wrong = suite(SUITE, *ON, KNOWN)
    assert wrong.ret == pytest.ExitCode.USAGE_ERROR
    wrong.stderr.fnmatch_lines(["*known.json is not a baseline of samedevice"])


def test_without_a_machine_nothing_is_written(suite, pytester):
    result = suite("def test_a():\n    pass\n", KNOWN, WRITE)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*known.json was not written: no test ran on a virtual machine"])
    assert not (pytester.path / "known.json").exists()
