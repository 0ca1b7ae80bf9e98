"""The launches of `examples/preflight/`: seven kinds of reported conflicts are refused, ten right launches
pass.
"""

from __future__ import annotations

import time

import pytest

from evidence.launches.preflight_cases import LIMIT, MACHINE, cases
from samedevice.machines import parse_machine
from samedevice.preflight import Request, preflight

CASES = cases()


@pytest.mark.parametrize(("folder", "refused"), CASES, ids=[folder.name for folder, _ in CASES])
def test_case(folder, refused, monkeypatch):
    monkeypatch.chdir(folder)
    started = time.perf_counter()
    (judgement,) = preflight(Request(folder / "launch.sh", parse_machine(MACHINE), environment={}))
    assert time.perf_counter() - started < LIMIT
    codes = [finding.code for finding in judgement.findings]
    assert ("SD132" in codes) if refused else codes == []
    assert judgement.mode.name != "unknown"


def test_there_are_seven_and_ten():
    assert [sum(refused for _, refused in CASES), sum(not refused for _, refused in CASES)] == [7, 10]


@pytest.mark.parametrize(
    "folder", [folder for folder, refused in CASES if refused], ids=lambda folder: folder.name
)
def test_names_do_not_matter(folder, tmp_path, monkeypatch):
    """A refused launch stays refused in a folder of any name."""
    copied = tmp_path / "any"
    for path in folder.rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts:
            target = copied / path.relative_to(folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(path.read_bytes())
    monkeypatch.chdir(copied)
    (judgement,) = preflight(Request(copied / "launch.sh", parse_machine(MACHINE), environment={}))
    assert "SD132" in [finding.code for finding in judgement.findings]
