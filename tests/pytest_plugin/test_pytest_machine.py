"""Options, fixture and marker: who runs on which machine, and what it costs not to."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

CONDITIONS = """
import unittest
import pytest, torch

from gpus import COUNT

@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_function():
    assert torch.ones(2, device="cuda:1").sum().item() == 2

@unittest.skipUnless(torch.cuda.is_available() and COUNT > 1, "needs two GPUs")
class Works(unittest.TestCase):
    device = torch.device("cuda", max(COUNT - 1, 0))

    def test_method(self):
        self.assertEqual(torch.zeros(3, device=self.device).device, torch.device("cuda:1"))
"""
COUNT = "import torch\nCOUNT = torch.cuda.device_count()\n"
"""A conftest asks before any test module does."""


@pytest.mark.parametrize(
    ("options", "passed"),
    [((), 0), (("--machine", "2x24GB"), 2), (("-o", "machine=2x24GB"), 2), (("--machine=1x24GB",), 0)],
)
def test_conditions_of_imports_see_the_gpus(suite, options, passed):
    result = suite(CONDITIONS, "-q", *options, gpus=COUNT, conftest="import gpus")
    result.assert_outcomes(passed=passed, skipped=2 - passed)


def test_the_option_wins_over_the_ini_file(suite, fresh_suite, pytester):
    pytester.makeini("[pytest]\nmachine = 4x24GB\n")
    source = "import torch\ndef test_count(): assert torch.cuda.device_count() == {}\n"
    suite(source.format(4)).assert_outcomes(passed=1)
    suite(source.format(3), "--machine=3x24GB").assert_outcomes(passed=1)
    none = "import sys\ndef test_none(): assert 'torch' not in sys.modules\n"
    fresh_suite(none, "--machine=").assert_outcomes(passed=1)


LIGHT = """
import sys
HEAVY = {"torch", "numpy", "rich", "typer", "samedevice.runtime", "samedevice.diagnosis", "samedevice.pytest_plugin._machine"}

def test_nothing_came_in(request):
    assert "samedevice.pytest_plugin" in sys.modules
    assert not HEAVY & set(sys.modules)

def test_no_fixture_came_in(request):
    assert request.fixturenames == ["request"]
"""  # noqa: E501  # a text, line by line


def test_without_a_machine_nothing_is_imported(fresh_suite):
    result = fresh_suite(LIGHT)
    result.assert_outcomes(passed=2)
    result.stdout.no_fnmatch_line("*virtual*")


def test_that_check_can_fail(suite):
    suite(LIGHT, "--machine=2x24GB").assert_outcomes(failed=2)


def test_help_needs_no_machine(suite):
    result = suite("", "--help", "--machine=2x24GB", conftest="import sys; assert 'torch' not in sys.modules")
    assert result.ret == 0
    result.stdout.fnmatch_lines(["*--machine=SPEC*", "*--on-mismatch=*", "*--device-findings=*"])


def test_the_header_names_the_machine(suite):
    suite("def test_it(): pass", "--machine=2x24GB").stdout.fnmatch_lines(
        ["machine: 2x24GB (virtual), on mismatch: raise"]
    )


@pytest.mark.parametrize(
    "words", [("--machine=2xNOTHING",), ("--on-mismatch=ignore",), ("--device-findings=all",)]
)
def test_wrong_options_are_told_at_once(suite, words):
    result = suite("def test_it(): pass", *words)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "Traceback" not in str(result.stderr)


MARKED = """
import pytest, torch

@pytest.fixture(scope="module")
def before():
    return torch.cuda.device_count()

@pytest.fixture
def tensor():
    return torch.ones(4, device="cuda")

@pytest.mark.machine("3x16GB")
@pytest.mark.parametrize("index", [0, 2])
def test_marked(before, tensor, index):
    assert (before, torch.cuda.device_count()) == (OUTSIDE, 3)
    assert tensor.to(index).device.index == index

@pytest.mark.machine("1x16GB", on_mismatch="record")
class TestMarked:
    def test_method(self, virtual_machine):
        torch.ones(2, device="cuda") + torch.ones(2)
        assert [finding.code for finding in virtual_machine.findings] == ["SD101"]
        assert virtual_machine.memory()["cuda:0"].peak_allocated > 0

def test_fixture(virtual_machine):
    assert torch.cuda.device_count() == (OUTSIDE or 2)
    assert virtual_machine.findings == []

def test_plain():
    assert torch.cuda.device_count() == OUTSIDE
"""


@pytest.mark.parametrize("outside", [0, 4])
def test_marker_and_fixture(suite, outside):
    options = [f"--machine={outside}x24GB"] if outside else []
    result = suite(f"OUTSIDE = {outside}\n{MARKED}", "--device-findings=report", "--strict-markers", *options)
    result.assert_outcomes(passed=5)


def test_a_marker_that_makes_no_sense(suite):
    result = suite("import pytest\n@pytest.mark.machine('2xNOTHING')\ndef test_it(): pass\n")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*samedevice:*2xNOTHING*"])


MODES = """
import pytest, torch

def mix():
    return torch.ones(2, device="cuda:0") + torch.ones(2, device="cuda:1")

def test_mixes():
    mix()

def test_expects():
    with pytest.raises(RuntimeError, match="same device"):
        mix()

@pytest.mark.xfail(strict=True)
def test_known():
    mix()

def test_fine():
    pass
"""


@pytest.mark.parametrize(
    ("options", "outcomes"),
    [
        ((), {"passed": 2, "failed": 1, "xfailed": 1}),
        (("--device-findings=error",), {"passed": 1, "failed": 2, "xfailed": 1}),
        (("--on-mismatch=record",), {"passed": 1, "failed": 2, "xfailed": 1}),
        (("--on-mismatch=record", "--device-findings=report"), {"passed": 2, "failed": 2}),
    ],
)
def test_what_fails(suite, options, outcomes):
    result = suite(MODES, "--machine=2x24GB", *options)
    result.assert_outcomes(**outcomes)
    result.stdout.fnmatch_lines(["*SD101 cross-device-operands: add got operands on cuda:0 and cuda:1*"])
