"""What is left out and what stays: comments on ways, codes of the settings, a baseline."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from samedevice.diagnosis import judge
from samedevice.errors import UsageError
from samedevice.events import WAYS_LIMIT, Event, EventKind, Operand, Place
from samedevice.findings import IgnoredCode
from samedevice.messages import Phrase
from samedevice.suppression import (
    Baseline,
    Decisions,
    Found,
    baseline_to_use,
    found_in,
    identity_of,
    sift,
    updated,
    write_baseline,
)


@pytest.fixture
def project(tmp_path):
    """A script whose line 1 is marked, and a module of a library that it calls from lines 1 and 2."""
    (tmp_path / "train.py").write_text("lib.add(a)  # samedevice: ignore[SD101] known\nlib.add(b)\n")
    library = tmp_path / "site-packages" / "lib"
    library.mkdir(parents=True)
    (library / "__init__.py").write_text("def add(x):\n    return x + y\n")
    return tmp_path


def found(project, file, line, code, ways=(), kind=EventKind.MISMATCH, op="aten.add.Tensor"):
    place = Place(str(project / file), line, "f", code)
    reached = tuple((Place(str(project / name), number, "f"),) for name, number in ways)
    operands = (Operand("self", "cuda:0", (), "float32"), Operand("other", "cpu", (2,), "float32"))
    event = Event(kind, op, "text", place, None, None, operands, reached=reached)
    return found_in(judge(event), event)


def left(sifted):
    return [finding.at.line for finding in sifted.findings]


def test_a_comment_on_the_failing_statement(project):
    one, two = (found(project, "train.py", line, "lib.add") for line in (1, 2))
    sifted = sift([one, two], Decisions(), "run train.py")
    assert left(sifted) == [2]
    (ignored,) = sifted.ignored
    assert (ignored.by, ignored.reason, ignored.line) == ("comment", "known", 1)
    assert sifted.unused == ()


def test_a_library_statement_needs_the_comment_on_every_way_to_it(project):
    file = "site-packages/lib/__init__.py"
    marked = found(project, file, 2, "return x + y", [("train.py", 1)])
    both = found(project, file, 2, "return x + y", [("train.py", 1), ("train.py", 2)])
    assert left(sift([marked], Decisions(), "")) == []
    sifted = sift([both], Decisions(), "")
    assert left(sifted) == [2]
    assert [comment.line for comment in sifted.unused] == [1]


def test_where_not_every_way_is_kept_nothing_is_left_out(project):
    file = "site-packages/lib/__init__.py"
    many = found(project, file, 2, "return x + y", [("train.py", 1)] * WAYS_LIMIT)
    assert left(sift([many], Decisions(), "")) == [2]


def test_one_file_may_be_spelled_in_several_ways(project):
    finding = found(project, "./sub/../train.py", 1, "lib.add")
    (project / "sub").mkdir()
    assert left(sift([finding], Decisions(), "", [str(project / "train.py")])) == []


def test_another_code_is_not_left_out_and_the_comment_is_unused(project):
    other = found(project, "train.py", 1, "lib.add", kind=EventKind.GENERATOR)
    sifted = sift([other], Decisions(), "")
    assert left(sifted) == [1]
    assert [comment.codes for comment in sifted.unused] == [("SD101",)]


def test_the_code_of_the_cause_counts_too(project):
    (project / "train.py").write_text("mask = torch.ones(2).cuda()  # samedevice: ignore[SD116] known\n")
    one = found(project, "train.py", 1, "mask")
    assert left(sift([one], Decisions(), "")) == [1]
    caused = Found(replace(one.finding, cause="hard-coded-device"))
    assert left(sift([caused], Decisions(), "")) == []


def test_a_comment_without_a_reason_is_asked_for_one(project):
    (project / "train.py").write_text("a + b  # samedevice: ignore[SD101]\n")
    sifted = sift([found(project, "train.py", 1, "a + b")], Decisions(), "")
    assert (left(sifted), [comment.line for comment in sifted.unreasoned]) == ([], [1])


def test_codes_of_the_settings(project):
    decisions = Decisions((IgnoredCode("SD103", "noise", "pyproject.toml"),))
    one = found(project, "train.py", 2, "x", kind=EventKind.GENERATOR)
    sifted = sift([one], decisions, "")
    assert [(each.by, each.reason) for each in sifted.ignored] == [("settings", "noise")]


def read(path):
    return baseline_to_use(path, write=False, option="--write-baseline")


def baseline_of(project, *findings, program="run train.py"):
    baseline = Baseline(project / "known.json")
    own = [identity_of(each.finding, project) for each in findings]
    write_baseline(updated(baseline, program, own, whole=True))
    return read(baseline.path)


def test_a_baseline_survives_moved_lines_and_counts_equal_statements(project):
    known = Decisions(baseline=baseline_of(project, found(project, "train.py", 5, "a + b")))
    moved = found(project, "train.py", 50, "a  +  b")
    assert left(sift([moved], known, "run train.py")) == []
    second = found(project, "train.py", 60, "a + b")
    assert left(sift([moved, second], known, "run train.py")) == [60]


@pytest.mark.parametrize(
    "other",
    [
        {"file": "other.py"},
        {"code": "a - b"},
        {"op": "aten.sub.Tensor"},
        {"kind": EventKind.UNCHECKED},
    ],
)
def test_what_differs_in_more_than_its_line_is_new(project, other):
    known = Decisions(baseline=baseline_of(project, found(project, "train.py", 5, "a + b")))
    new = found(project, **{"file": "train.py", "line": 5, "code": "a + b", **other})
    sifted = sift([new], known, "run train.py")
    assert left(sifted) == [5]
    assert [each.statement for each in sifted.absent] == ["a + b"]


def test_programs_share_a_file_and_leave_each_others_entries_alone(project):
    one, two = (found(project, "train.py", 5, code) for code in ("a + b", "c + d"))
    baseline = baseline_of(project, one, two)
    assert sift([one], Decisions(baseline=baseline), "run other.py").findings == (one.finding,)
    own = [identity_of(one.finding, project)]
    both = updated(baseline, "run other.py", own, whole=True)
    assert {entry.program for entry in both.entries} == {"run train.py", "run other.py"}
    fewer = updated(both, "run train.py", own, whole=True)
    assert [entry.identity.statement for entry in fewer.entries] == ["a + b", "a + b"]
    kept = updated(both, "run train.py", [], whole=False)
    assert len(kept.known("run train.py")) == 2


def test_installed_packages_and_the_project_are_named_as_everywhere(project):
    inside = found(project, "site-packages/lib/__init__.py", 2, "x + y")
    assert identity_of(inside.finding, project).file == "lib/__init__.py"
    assert identity_of(found(project, "train.py", 2, "x").finding, project / "sub").file == "../train.py"


@pytest.mark.parametrize(
    ("content", "key"),
    [
        (None, "baseline.missing"),
        ("no json", "baseline.unreadable"),
        ("[1]", "baseline.none"),
        ('{"findings": 1}', "baseline.none"),
        ('{"schema": 2, "findings": []}', "baseline.schema"),
        ('{"schema": 1, "findings": [{"code": "SD101"}]}', "baseline.entry"),
        ("[" * 100_000, "baseline.unreadable"),
    ],
)
def test_a_file_that_is_no_baseline_is_told(tmp_path, content, key):
    path = tmp_path / "known.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(UsageError) as raised:
        read(path)
    assert raised.value.args[0].key == key


@pytest.mark.parametrize("count", [0, -1, True, "1", 1.5])
def test_counts_are_whole_numbers(tmp_path, count):
    path = tmp_path / "known.json"
    row = {"program": "a", "code": "SD101", "file": "", "statement": "", "operator": "", "count": count}
    path.write_text(json.dumps({"schema": 1, "findings": [row]}))
    with pytest.raises(UsageError):
        read(path)


def test_a_finding_without_a_place_has_an_identity(project):
    finding = replace(found(project, "train.py", 1, "x").finding, at=None, title=Phrase("held"))
    assert identity_of(finding, project).file == ""
