"""The judge of the zoo: what it accepts as the expected finding, and what it does not."""

import pytest

from evidence.zoo.judge import LAST_LINE, Outcome, judge_bad, judge_good, matches

EXPECT = {
    "file": "transformers/models/clip/modeling_clip.py",
    "lines": [10, 12],
    "op": "aten.mul",
    "devices": ["cuda:0", "cpu"],
}


def finding(
    op="aten.mul.Tensor",
    line=11,
    file="/env/transformers/models/clip/modeling_clip.py",
    devices=("cuda:0", "cpu"),
):
    return {
        "code": "SD101",
        "op": op,
        "at": {"file": file, "line": line},
        "operands": [{"device": device} for device in devices],
    }


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"op": "aten.mul"},
        {"op": "aten.mul.out"},
        {"line": 10},
        {"line": 12},
        {"devices": ("cpu", "cuda:0")},
        {"devices": ("cuda:0", "cuda:0", "cpu", "cuda:1")},
        {"file": "transformers/models/clip/modeling_clip.py"},
        {"file": "C:\\env\\transformers\\models\\clip\\modeling_clip.py"},
    ],
)
def test_expected_finding_is_accepted(changed):
    assert matches(finding(**changed), EXPECT)


@pytest.mark.parametrize(
    "changed",
    [
        {"op": "aten.mul_.Tensor"},
        {"op": "aten.mul_"},
        {"op": "aten.multiply.Tensor"},
        {"op": "aten.mu"},
        {"op": None},
        {"line": 9},
        {"line": 13},
        {"line": None},
        {"devices": ("cuda:0",)},
        {"devices": ("cuda:1", "cpu")},
        {"devices": ()},
        {"file": "/env/mytransformers/models/clip/modeling_clip.py"},
        {"file": "/env/transformers/models/clip/modeling_clip.pyc"},
        {"file": None},
    ],
)
def test_other_finding_is_refused(changed):
    assert not matches(finding(**changed), EXPECT)


def test_finding_without_a_place_is_refused():
    assert not matches({**finding(), "at": None, "operands": None}, EXPECT)


def test_bad_version_is_right_when_the_bug_is_among_the_findings():
    verdict = judge_bad(Outcome(1, [finding(line=99), finding()], ""), EXPECT)
    assert verdict.right
    assert verdict.others == ("SD101 aten.mul.Tensor (cuda:0, cpu) at models/clip/modeling_clip.py:99",)


def test_bad_version_with_another_finding_says_what_differs():
    verdict = judge_bad(
        Outcome(1, [finding(op="aten.add.Tensor", line=1), finding(op="aten.mul_.Tensor")], LAST_LINE), EXPECT
    )
    assert not verdict.right
    assert verdict.why.startswith("nearest finding has another op ")
    assert len(verdict.others) == 2


def test_bad_version_without_findings_is_wrong():
    assert (
        judge_bad(Outcome(0, [], LAST_LINE), EXPECT).why
        == "nothing found (exit status 0, 'SCENARIO OK' printed last)"
    )


def test_a_run_without_a_report_is_wrong_and_shows_stderr():
    crashed = Outcome(3, None, "", "ImportError: no torchvision")
    for verdict in (judge_bad(crashed, EXPECT), judge_good(crashed)):
        assert not verdict.right
        assert verdict.why == "no report, exit status 3: ImportError: no torchvision"


def test_a_run_that_took_too_long_is_wrong():
    stopped = Outcome(None, None, "", seconds=300)
    assert judge_bad(stopped, EXPECT).why == "no report: stopped after 300 s"
    assert not judge_good(stopped).right


def test_good_version_is_right_only_when_clean_and_complete():
    assert judge_good(Outcome(0, [], LAST_LINE)).right


@pytest.mark.parametrize(
    "outcome",
    [
        Outcome(1, [finding()], LAST_LINE),
        Outcome(0, [finding()], LAST_LINE),
        Outcome(3, [], LAST_LINE),
        Outcome(0, [], "almost"),
        Outcome(0, None, LAST_LINE),
    ],
)
def test_good_version_is_wrong(outcome):
    assert not judge_good(outcome).right


def test_false_alarm_is_shown():
    verdict = judge_good(Outcome(1, [finding()], LAST_LINE))
    assert verdict.why == "false alarm"
    assert verdict.others == ("SD101 aten.mul.Tensor (cuda:0, cpu) at models/clip/modeling_clip.py:11",)
