from __future__ import annotations

import textwrap
from dataclasses import replace

import pytest

from samedevice.machines import parse_machine
from samedevice.preflight import Request, preflight
from samedevice.report import render, render_finding


@pytest.fixture
def judged(tmp_path):
    """Write files, judge the first, and give the only judgement."""

    def judge(files, machine="4xA100-80G", language="en", **options):
        if isinstance(files, str):
            files = {"train.py": files}
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text))
        options.setdefault("environment", {})
        request = Request(target=tmp_path / next(iter(files)), machine=parse_machine(machine), **options)
        (judgement,) = preflight(request)
        return replace(
            judgement,
            findings=tuple(render_finding(finding, language) for finding in judgement.findings),
            notes=tuple(render(note, language) for note in judgement.notes),
        )

    return judge


@pytest.fixture
def codes(judged):
    return lambda *args, **options: [finding.code for finding in judged(*args, **options).findings]
