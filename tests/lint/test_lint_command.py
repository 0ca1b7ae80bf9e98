"""`samedevice lint` as a person and as other programs see it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

pytestmark = pytest.mark.usefixtures("warm")

ROOT = Path(__file__).parents[2]
BAD = """import torch

state = torch.load("model.pt")
"""
GOOD = """import torch

state = torch.load("model.pt", map_location="cpu")
"""
MOVED = """import torch


def scores(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    x.to(weight.device)  # beside the weight
    return x @ weight
"""


def lint(folder, *words, lang="en"):
    """With all rules, unless some are named."""
    words = words if "--select" in words else (*words, "--select", "ALL")
    return subprocess.run(
        [sys.executable, "-m", "samedevice", "lint", *words, "--lang", lang],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONIOENCODING": "utf-8", "COLUMNS": "120"},
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )


@pytest.fixture
def project(tmp_path):
    (tmp_path / "bad.py").write_text(BAD)
    (tmp_path / "good.py").write_text(GOOD)
    return tmp_path


def notebook(*cells):
    made = [
        {"cell_type": kind, "metadata": {}, "source": text.splitlines(keepends=True)} for kind, text in cells
    ]
    return json.dumps({"cells": made, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1)


def test_rules_that_are_off_by_default_are_named_to_be_used(project):
    done = lint(project, ".", "--select", "SD2")
    assert done.returncode == 1
    done = subprocess.run(
        [sys.executable, "-m", "samedevice", "lint", "."],
        cwd=project,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0


def test_status_says_what_was_found(project):
    assert lint(project, "good.py").returncode == 0
    done = lint(project, ".")
    assert done.returncode == 1
    assert "SD205" in done.stdout
    assert "bad.py:3" in done.stdout
    assert "files read: 2" in done.stdout
    assert lint(project, "nowhere").returncode == 2
    assert lint(project, ".", "--select", "SD999").returncode == 2
    assert lint(project, "--select", "SD2").returncode == 2


def test_other_forms(project):
    document = json.loads(lint(project, ".", "--output-format", "json").stdout)
    assert document["schema"] == 1
    (finding,) = document["findings"]
    assert (finding["code"], finding["cause"]) == ("SD205", "checkpoint-map-location")
    assert finding["at"]["line"] == 3
    sarif = json.loads(lint(project, ".", "--output-format", "sarif").stdout)
    schema = next((ROOT / "tests" / "report" / "schemas").glob("*sarif*"))
    jsonschema.validate(sarif, json.loads(schema.read_text("utf-8")))
    (result,) = sarif["runs"][0]["results"]
    assert result["ruleId"] == "SD205"
    assert result["fixes"]
    github = lint(project, ".", "--output-format", "github").stdout
    assert github.startswith("::error file=")
    assert ",line=3,title=SD205 load-without-map-location::" in github
    assert "读" in lint(project, ".", lang="zh").stdout


def test_a_comment_with_a_reason_leaves_a_finding_out(project):
    (project / "bad.py").write_text(
        BAD.replace('"model.pt")', '"model.pt")  # samedevice: ignore[SD205] ours')
    )
    assert lint(project, ".").returncode == 0
    (project / "bad.py").write_text(BAD.replace('"model.pt")', '"model.pt")  # samedevice: ignore[SD299]'))
    done = lint(project, ".")
    assert done.returncode == 1
    assert "SD299" in done.stdout


def test_a_baseline_keeps_what_was_there(project):
    assert lint(project, ".", "--baseline", "known.json", "--write-baseline").returncode == 0
    assert lint(project, ".", "--baseline", "known.json").returncode == 0
    (project / "new.py").write_text(BAD)
    assert lint(project, ".", "--baseline", "known.json").returncode == 1


def test_settings_choose_rules_and_files(project):
    (project / "pyproject.toml").write_text('[tool.samedevice.lint]\nexclude = ["bad.py"]\n')
    assert lint(project, ".").returncode == 0
    (project / "pyproject.toml").write_text('[tool.samedevice.lint]\nignore = ["SD205"]\n')
    assert lint(project, ".").returncode == 0
    assert lint(project, ".", "--exclude", "good.py").returncode == 0
    (project / "pyproject.toml").write_text("[tool.samedevice.lint]\nrules = []\n")
    done = lint(project, ".")
    assert done.returncode == 2
    assert "lint.rules" in done.stderr


def test_fixes_are_shown_and_written(project):
    (project / "moved.py").write_text(MOVED)
    done = lint(project, "moved.py", "--diff")
    assert "+    x = x.to(weight.device)  # beside the weight" in done.stdout
    assert "SD210" in done.stderr
    applied = subprocess.run(
        ["git", "apply", "--check", "-"], check=False, input=done.stdout, cwd=project, text=True
    )
    assert applied.returncode == 0
    done = lint(project, "moved.py", "--fix")
    assert done.returncode == 0
    assert (project / "moved.py").read_text() == MOVED.replace("    x.to", "    x = x.to")
    assert lint(project, "bad.py", "--fix").returncode == 1, "a fix that wants a look is not written"
    assert lint(project, "bad.py", "--fix", "--diff").returncode == 2


def test_a_notebook_is_read_by_its_cells(project):
    path = project / "demo.ipynb"
    path.write_text(
        notebook(
            ("markdown", "# torch.load"),
            ("code", "%matplotlib inline\n!nvidia-smi\nimport torch\n"),
            ("code", "%%bash\nls 'x\n"),
            ("code", 'state = torch.load("a.pt")\n'),
        )
    )
    document = json.loads(lint(project, "demo.ipynb", "--output-format", "json").stdout)
    (finding,) = document["findings"]
    assert finding["at"]["function"] == "cell 4"
    line = path.read_text().splitlines()[finding["at"]["line"] - 1]
    assert "torch.load" in line
    text = path.read_text().replace('\\"a.pt\\")', '\\"a.pt\\")  # samedevice: ignore[SD205] ours')
    path.write_text(text)
    assert lint(project, "demo.ipynb").returncode == 0


def test_what_cannot_be_read_is_told_and_stops_nothing(project):
    (project / "broken.py").write_text("torch.load(\n")
    (project / "bytes.py").write_bytes(b"torch.load(\xff\xfe)")
    (project / "none.ipynb").write_text("{")
    done = lint(project, ".")
    assert done.returncode == 1
    for name in ("broken.py", "bytes.py", "none.ipynb"):
        assert name in done.stdout
    document = json.loads(lint(project, ".", "--output-format", "json").stdout)
    assert len(document["unreadable"]) == 3


def test_several_processes_say_the_same_in_the_same_order(tmp_path):
    for number in range(60):
        (tmp_path / f"m{number:02}.py").write_text(BAD if number % 3 == 0 else GOOD)
    one, two = (lint(tmp_path, ".", "--jobs", jobs, "-q").stdout for jobs in ("1", "2"))
    assert one == two
    assert len(one.splitlines()) == 20
