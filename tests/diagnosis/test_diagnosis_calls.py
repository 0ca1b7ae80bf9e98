"""Fixes at a call: what is given to a function is changed where the script gives it, and the run is clean."""

from __future__ import annotations

import re

import pytest

import samedevice as sd
from samedevice.diagnosis.fixes import combined


def findings_of(path):
    with sd.machine("2x24GB", on_mismatch="record") as machine:
        exec(
            compile(path.read_text("utf-8"), str(path), "exec"), {"__name__": "__main__"}
        )  # the test's own script
    return machine.findings


def repaired(path, source):
    """The first fix of a script's first finding; the script is changed by it."""
    path.write_text(source, "utf-8")
    fix = findings_of(path)[0].fixes[0]
    assert fix.diff is not None, fix.title
    assert not any(re.search(r"""["']c(?:uda|pu)""", each) for each in fix.diff.splitlines() if each[0] == "+")
    text, refused = combined(source, [fix.diff])
    assert not refused
    path.write_text(text, "utf-8")
    return fix, text


DRAWN = {
    "torch.randperm(4, generator=g)": "torch.randperm(4, generator=g, device=g.device)",
    "torch.randint(\n    0, 4, (2,),\n    generator=g,\n)": "    generator=g,\n    device=g.device,\n)",
    "torch.randn(2, generator=own.g)": "torch.randn(2, generator=own.g, device=own.g.device)",
}


@pytest.mark.parametrize("call", DRAWN)
def test_numbers_are_drawn_where_the_generator_is(call, tmp_path):
    fix, text = repaired(
        tmp_path / "script.py",
        'import torch\ng = torch.Generator("cuda:1")\nclass own:\n    g = g\n\n'
        f'torch.randn(2, generator=g, device="cuda:1")\ndrawn = {call}\n',
    )
    assert DRAWN[call] in text
    assert fix.safety == "safe"
    assert findings_of(tmp_path / "script.py") == []
