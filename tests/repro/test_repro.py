"""Short programs of `repro/` do what their blocks say; and the blocks are read strictly."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from evidence.bugs import repro

ROOT = repro.PROGRAMS.parent


@pytest.mark.usefixtures("warm_children")
def test_short_programs_do_what_they_must(whole):
    """Every third one, and in the whole suite all."""
    names = [each.name for each in repro.programs([])][:: 1 if whole else 3]
    done = subprocess.run(
        [sys.executable, "-m", "evidence", "repro", "--short", *names],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "LC_ALL": "C.UTF-8"},
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    wrong = [line for line in done.stdout.splitlines() if "  wrong  " in line]
    assert not wrong and done.returncode == 0, "\n".join(wrong) or done.stderr


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("print(1)\n", "no block"),
        ("# /// expect\n# most = 1\n# ///\n", "unknown key most"),
    ],
)
def test_a_program_without_a_readable_block_is_refused(tmp_path, text, reason):
    program = tmp_path / "program.py"
    program.write_text(text)
    with pytest.raises(repro.ReproError, match=reason):
        repro.read(program)


def test_what_differs_is_told():
    program = repro.Program("p.py", "must", exit=(0,), prints=("cuda:0",), never=("meta",), findings=({"code": "SD101", "fix": "x.device"},))
    fix = {"title": "make it there", "diff": '+ torch.ones(4, device="cuda:0")'}
    told = list(repro._differences(program, 1, "cpu", "on meta", [{"code": "SD102", "fixes": [fix]}]))
    assert told == [
        "exit 1: on meta",
        "does not print 'cuda:0'",
        "says 'meta'",
        "finding 1: code is 'SD102', not 'SD101'",
        "finding 1: no fix has 'x.device'",
    ]
    assert list(repro._differences(program, -6, "cuda:0", "", None)) == ["ended by SIGABRT", "writes no document"]
