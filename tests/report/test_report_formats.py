"""GitHub commands that a runner reads back, and SARIF that its schema accepts."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

from samedevice.diagnosis import explain_text, judge
from samedevice.events import Event, EventKind, Operand, Place
from samedevice.findings import Fix
from samedevice.messages import Phrase
from samedevice.report import finding_commands, finding_line, problem_commands, sarif_document
from samedevice.suppression import Problem, Sifted

SCHEMA = json.loads((Path(__file__).parent / "schemas" / "sarif-2.1.0.json").read_text("utf-8"))
VALIDATOR = jsonschema.Draft7Validator(SCHEMA, format_checker=jsonschema.Draft7Validator.FORMAT_CHECKER)


def finding(file="/project/train.py", line=4, code="y = a + b", user=None, kind=EventKind.MISMATCH):
    place = Place(file, line, "forward", code)
    operands = (
        Operand("self", "cuda:0", (2,), "float32", made=Place("/project/train.py", 1, "<module>", "a")),
        Operand(
            "other",
            "cpu",
            (2,),
            "float32",
            made=Place("/else where/é.py", 2, "<module>"),
            moved=Place(file, 3, "f"),
        ),
    )
    return judge(Event(kind, "aten.add.Tensor", "text", place, user, None, operands))


def read_command(line):
    """What a runner makes of a line: the command, its properties, its message."""
    assert "\n" not in line and "\r" not in line
    head, _, data = line.removeprefix("::").partition("::")
    name, _, listed = head.partition(" ")
    properties = dict(each.split("=", 1) for each in listed.split(","))
    back = {"%0D": "\r", "%0A": "\n", "%3A": ":", "%2C": ","}
    for code, text in back.items():
        properties = {key: value.replace(code, text) for key, value in properties.items()}
    properties = {key: value.replace("%25", "%") for key, value in properties.items()}
    return name, properties, data.replace("%0D", "\r").replace("%0A", "\n").replace("%25", "%")


def log(*findings, **options):
    document = sarif_document(
        findings, version="1", command="run", root=Path("/project"), target="/project/train.py", **options
    )
    assert [error.message for error in VALIDATOR.iter_errors(document)] == []
    (run,) = document["runs"]
    return run


def test_a_command_has_file_line_and_the_whole_diagnosis():
    (line,) = finding_commands([finding()], Path("/project"))
    name, properties, message = read_command(line)
    assert (name, properties) == (
        "error",
        {"file": "train.py", "line": "4", "title": "SD101 cross-device-operands"},
    )
    assert message.splitlines()[:2] == [
        "SD101 cross-device-operands: add got operands on cuda:0 and cpu",
        "  /project/train.py:4 in forward      y = a + b",
    ]


@pytest.mark.parametrize("name", ["a,b.py", "a:b.py", "100%25.py", "a::error::b.py", "a b=c.py"])
def test_names_cannot_break_a_command(name):
    (line,) = finding_commands(
        [finding(f"/project/{name}", code="x % 2 == '::set-output::'")], Path("/project")
    )
    _, properties, message = read_command(line)
    assert properties["file"] == name
    assert "x % 2 == '::set-output::'" in message


def test_control_characters_of_a_name_are_shown_by_their_codes():
    (line,) = finding_commands([finding("/project/a\r\n::error::b\x1b.py")], Path("/project"))
    assert "\n" not in line and "\x1b" not in line and line.count("::error ") == 1


def test_a_library_statement_is_annotated_where_the_project_calls_it():
    library = "/venv/lib/python3.11/site-packages/lib/a.py"
    found = finding(library, user=Place("/project/sub/model.py", 7, "f", "lib.add(x)"))
    _, properties, _ = read_command(*finding_commands([found], Path("/project")))
    assert (properties["file"], properties["line"]) == ("sub/model.py", "7")
    (result,) = log(found)["results"]
    where = result["locations"][0]["physicalLocation"]
    assert (where["artifactLocation"]["uri"], where["region"]["startLine"]) == ("sub/model.py", 7)
    assert result["relatedLocations"][0]["physicalLocation"]["artifactLocation"]["uri"] == f"file://{library}"


def test_problems_are_annotated():
    problem = Problem("/project/train.py", 3, Phrase("ignore.no-code"))
    (line,) = problem_commands(Sifted((), problems=(problem,)), Path("/project"))
    assert read_command(line)[1] == {"file": "train.py", "line": "3"}


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("kind", EventKind)
def test_every_kind_of_event_is_valid_sarif(kind, language):
    found = finding(kind=kind)
    run = log(found, language=language)
    rules = run["tool"]["driver"]["rules"]
    (result,) = run["results"]
    assert rules[result["ruleIndex"]]["id"] == result["ruleId"] == found.code
    assert "](../" not in rules[0]["help"]["markdown"]
    assert (run["language"] == "zh-CN") == (language == "zh")


def test_no_finding_and_pasted_texts_are_valid_sarif():
    assert log()["results"] == []
    text = (
        'File "C:\\work\\train.py", line 3, in f\n    a + b\nRuntimeError: Expected all tensors to be on the '
        "same device, but found at least two devices, cuda:0 and cpu!"
    )
    assert log(*explain_text(text))["results"]


def test_a_finding_without_a_place_stands_on_the_program():
    found = replace(finding(), at=Place("", 0, ""), user_at=None, operands=())
    (result,) = log(found)["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "train.py"


def test_fingerprints_survive_moved_lines_and_tell_equal_statements_apart():
    def prints(*findings):
        return [each["partialFingerprints"]["samedeviceFinding/v1"] for each in log(*findings)["results"]]

    one, two = prints(finding(line=4), finding(line=40))
    assert one != two
    assert prints(finding(line=9)) == [one]
    assert prints(finding(code="y = a - b")) != [one]


def test_a_diff_becomes_replacements_that_give_the_same_file():
    old = ["import torch", "a = 1", "b = 2", "c = 3", "d = 4", "e = 5", ""]
    new = ["import torch", "a = 1", "b = 22", "bb = 2", "c = 3", "d = 4", ""]
    diff = (
        "--- a/train.py\n+++ b/train.py\n@@ -2,3 +2,4 @@\n a = 1\n-b = 2\n+b = 22\n+bb = 2\n c = 3\n"
        "@@ -5,2 +6 @@\n d = 4\n-e = 5\n"
    )
    found = replace(finding(), fixes=(Fix(Phrase("fix.one-device"), "safe", diff),))
    (result,) = log(found)["results"]
    (change,) = result["fixes"][0]["artifactChanges"]
    lines = list(old)
    for each in reversed(change["replacements"]):
        region = each["deletedRegion"]
        lines[region["startLine"] - 1 : region["endLine"]] = each["insertedContent"]["text"].split("\n")
    assert lines == new


def test_the_schema_can_refuse():
    document = sarif_document([finding()], version="1", command="run", root=Path("/project"))
    document["runs"][0]["results"][0]["level"] = "fatal"
    assert list(VALIDATOR.iter_errors(document))


def test_a_line_begins_with_its_place():
    assert finding_line(finding()) == (
        "/project/train.py:4: SD101 cross-device-operands: add got operands on cuda:0 and cpu"
    )
