"""Findings reach the reader: in failures, at the end of the run, in the XML, from workers."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

pytest_plugins = ["pytester"]

SUITE = """
import pytest, torch

def mix():
    scale = torch.ones(2, device="cuda:1")
    return torch.ones(2, device="cuda:0") * scale

@pytest.mark.parametrize("time", range(7))
def test_caught(time):
    with pytest.raises(RuntimeError):
        mix()

def test_clean():
    pass
"""
HEADLINE = "SD101 cross-device-operands: mul got operands on cuda:0 and cuda:1"

CHILD = """
import subprocess, sys

def test_child():
    subprocess.run([sys.executable, "-c", "import torch; torch.ones(2, device='cuda') * torch.ones(2)"], check=True)

def test_clean():
    pass
"""  # noqa: E501  # a text, line by line


def test_what_a_child_finds_counts_for_its_test(suite):
    result = suite(CHILD, "--machine=2x24GB", "--on-mismatch=record")
    result.assert_outcomes(failed=1, passed=1)
    result.stdout.fnmatch_lines(
        ["SD101 cross-device-operands: mul got operands on cuda:0 and cpu*", "  in test_it.py::test_child"]
    )


def test_findings_are_listed_once_with_their_tests(suite):
    result = suite(SUITE, "--machine=2x24GB")
    result.assert_outcomes(passed=8)
    result.stdout.fnmatch_lines(
        [
            "*= device findings =*",
            HEADLINE,
            "  test_it.py:5 in mix      return torch.ones(2, device=*",
            "  scale *cuda:1 * made at line 4*",
            "  in test_it.py::test_caught?0?",
            "  in test_it.py::test_caught?4?",
            "  and in 2 more; -v lists them",
            "1 statement in 7 tests",
        ]
    )
    assert str(result.stdout).count(HEADLINE) == 1


def test_verbose_names_all_tests(suite):
    suite(SUITE, "--machine=2x24GB", "-v").stdout.fnmatch_lines(["  in test_it.py::test_caught?6?"])


def test_a_failure_carries_its_diagnosis_and_ends_at_the_statement(suite):
    result = suite(SUITE.replace("with pytest.raises(RuntimeError)", "if True"), "--machine=2x24GB")
    result.assert_outcomes(failed=7, passed=1)
    result.stdout.fnmatch_lines(
        [
            "E       RuntimeError: Expected all tensors*",
            "",
            "test_it.py:5: RuntimeError",
            "*Device findings*",
            HEADLINE,
            "*= device findings =*",
        ]
    )
    result.stdout.fnmatch_lines([f"{HEADLINE} (*test_it.py:5 in mix); see above"])
    result.stdout.no_fnmatch_line("*samedevice/runtime*")


def test_full_trace_shows_our_frames(suite):
    result = suite(
        SUITE.replace("with pytest.raises(RuntimeError)", "if True"), "--machine=2x24GB", "--full-trace"
    )
    result.stdout.fnmatch_lines(["*samedevice/runtime*"])


def properties(path):
    found = {}
    for case in ElementTree.parse(path).iter("testcase"):
        found[case.get("name")] = [
            each.get("value") for each in case.iter("property") if each.get("name") == "device_finding"
        ]
    return found


@pytest.mark.parametrize("workers", [0, 2])
def test_xml(suite, pytester, workers):
    if workers:
        pytest.importorskip("xdist")
    result = suite(SUITE, "--machine=2x24GB", "--junit-xml=out.xml", *([f"-n{workers}"] if workers else []))
    result.assert_outcomes(passed=8)
    found = properties(pytester.path / "out.xml")
    assert found.pop("test_clean") == []
    assert len(found) == 7
    assert {line for lines in found.values() for line in lines} == {f"{HEADLINE} (test_it.py:5 in mix)"}


def test_workers_send_their_findings(suite):
    pytest.importorskip("xdist")
    result = suite(SUITE, "--machine=2x24GB", "-n2")
    result.assert_outcomes(passed=8)
    result.stdout.fnmatch_lines(["*= device findings =*", HEADLINE, "1 statement in 7 tests"])


def test_findings_of_imports_and_of_teardown(suite):
    source = """
        import pytest, torch
        mixed = torch.ones(2, device="cuda:0") + torch.ones(2, device="cuda:1")

        @pytest.fixture
        def late():
            yield
            torch.ones(2, device="cuda:0") * torch.ones(2, device="cuda:1")

        def test_it(late):
            pass
    """
    result = suite(source, "--machine=2x24GB", "--on-mismatch=record")
    result.stdout.fnmatch_lines(
        [
            "SD101 cross-device-operands: add *",
            "  in while the tests were imported",
            "SD101 cross-device-operands: mul *",
            "  in *::test_it",
        ]
    )


def test_out_of_memory_is_a_finding(suite):
    source = "import torch\ndef test_it(): torch.ones(1 << 36, device='cuda:1')\n"
    result = suite(source, "--machine=2x24GB")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E*OutOfMemoryError*", "*Device findings*", "*out-of-memory*cuda:1*"])


def test_unittest(suite):
    source = """
        import unittest, torch

        class Works(unittest.TestCase):
            def test_mixes(self):
                torch.ones(2, device="cuda:0") + torch.ones(2, device="cuda:1")

            def test_quiet(self):
                with self.assertRaises(RuntimeError):
                    self.test_mixes()

            @unittest.expectedFailure
            def test_known(self):
                self.test_mixes()

            def test_skips(self):
                self.skipTest("not now")
    """
    result = suite(source, "--machine=2x24GB", "--device-findings=error")
    result.assert_outcomes(failed=2, xfailed=1, skipped=1)
    suite(source, "--machine=2x24GB").assert_outcomes(failed=1, passed=1, xfailed=1, skipped=1)


ASSUMED = """
import torch

def test_large():
    large = torch.ones(1 << 20, device="cuda")
    torch.testing.assert_close(large, large.clone())

def test_small():
    assert torch.ones(2, device="cuda").sum() == 3
"""


def test_a_failure_says_which_values_were_assumed(suite):
    result = suite(ASSUMED, "--machine=2x24GB")
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(
        ["*- Assumed values -*", "values that nobody computed were read at test_it.py:5: tensors above *"]
    )
    assert str(result.stdout).count("Assumed values") == 1


IGNORED = """
import torch

def test_known():
    a, b = torch.ones(2, device="cuda:0"), torch.ones(2, device="cuda:1")
    a + b  # samedevice: ignore[SD101] waits for a release
    torch.zeros(2, device="cuda:0").normal_(generator=torch.Generator())

def test_new():
    torch.ones(2, device="cuda:0") - torch.ones(2, device="cuda:1")
"""


def test_what_comments_and_settings_ignore_is_counted_and_fails_no_test(suite, pytester):
    pytester.makefile(
        ".toml",
        pyproject='[tool.samedevice]\nignore = [{code = "SD103", reason = "on purpose"}]\n',
    )
    result = suite(IGNORED, "--machine=2x24GB", "--on-mismatch=record")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        ["2 statements ignored, by comments, settings or the baseline", "1 statement in 1 test"]
    )


def test_a_comment_without_a_code_and_a_wrong_setting_are_told(suite, pytester):
    wrong = IGNORED.replace("ignore[SD101]", "ignore")
    result = suite(wrong, "--machine=2x24GB", "--on-mismatch=record")
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["test_it.py:5: this comment names no code*"])
    pytester.makefile(".toml", pyproject="[tool.samedevice]\nmachin = 1\n")
    result = suite(IGNORED, "--machine=2x24GB", "--on-mismatch=record")
    assert "has no key machin" in result.stdout.str() + result.stderr.str()
    assert result.ret != 0
