"""Small programs with one bug each, as people write them: the cause is named, and a safe fix repairs what it
says.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from test_diagnosis_fixes import apply, findings_of

from evidence.bugs import programs

PROGRAMS = [
    *sorted((Path(__file__).parent / "programs").glob("*.py")),
    programs.PROGRAMS / "seen" / "pinn_lion.py",
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_the_cause_is_named(program, tmp_path):
    source = program.read_text("utf-8")
    causes = source.splitlines()[0].removeprefix("# cause: ").split("|")
    path = tmp_path / program.name
    path.write_text(source, "utf-8")
    found = findings_of(path)
    assert found[0].cause in causes
    for finding in found:
        for fix in finding.fixes:
            if fix.safety == "safe" and fix.diff is not None:
                repaired = tmp_path / f"repaired_{program.name}"
                repaired.write_text(apply(fix.diff, source), "utf-8")
                again = {(each.op, each.at.line) for each in findings_of(repaired)}
                assert (finding.op, finding.at.line) not in again
