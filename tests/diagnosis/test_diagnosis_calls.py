"""Fixes at a call: what is given to a function is changed where the script gives it, and the run is clean."""

from __future__ import annotations

import re

import pytest

import samedevice as sd
from samedevice.diagnosis import judge
from samedevice.diagnosis.fixes import combined
from samedevice.machines import parse_machine
from samedevice.report import render
from samedevice.report.terminal import why_text
from samedevice.runtime import VirtualMachine


def findings_of(path):
    with sd.machine("2x24GB", on_mismatch="record") as machine:
        exec(
            compile(path.read_text("utf-8"), str(path), "exec"), {"__name__": "__main__"}
        )  # the test's own script
    return machine.findings


def events_of(path):
    with VirtualMachine(parse_machine("2x24GB"), on_mismatch="record") as machine:
        exec(compile(path.read_text("utf-8"), str(path), "exec"), {"__name__": "__main__"})
    return machine.events


def repaired(path, source):
    """The first fix of a script's first finding; the script is changed by it."""
    path.write_text(source, "utf-8")
    fix = findings_of(path)[0].fixes[0]
    assert fix.diff is not None, fix.title
    added = [each for each in fix.diff.splitlines() if each.startswith("+")]
    assert not any(re.search(r"""["']c(?:uda|pu)""", each) for each in added)
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


READ_ON_HOST = {
    "rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)": "pack_padded_sequence(x, lengths.cpu(), ",
    "rnn.pack_padded_sequence(x.cpu(), lengths=sizes[1], enforce_sorted=False)": "lengths=sizes[1].cpu(), ",
    "rnn.pack_padded_sequence(x, sizes.get(1), False, False)": "(x, sizes.get(1).cpu(), False, False)",
    "x.tensor_split(lengths + 1)": "x.tensor_split((lengths + 1).cpu())",
    "torch.tensor_split(x, lengths, dim=1)": "torch.tensor_split(x, lengths.cpu(), dim=1)",
}


@pytest.mark.parametrize("call", READ_ON_HOST)
def test_what_is_read_on_the_host_is_brought_there(call, tmp_path):
    fix, text = repaired(
        tmp_path / "script.py",
        "import torch\nfrom torch.nn.utils import rnn\nx = torch.ones(4, 2, 3).cuda()\n"
        f"lengths = torch.tensor([2, 4]).cuda()\nsizes = {{1: lengths}}\nout = {call}\n",
    )
    assert READ_ON_HOST[call] in text
    assert fix.safety == "safe"
    assert findings_of(tmp_path / "script.py") == []


@pytest.mark.parametrize("language", ["en", "zh"])
def test_an_operand_that_is_read_on_the_host_is_told(language, tmp_path):
    path = tmp_path / "script.py"
    path.write_text(
        "import torch\nlengths = torch.tensor([1, 2]).cuda()\n"
        "torch.nn.utils.rnn.pack_padded_sequence(torch.ones(2, 2).cuda(), lengths, enforce_sorted=False)\n"
    )
    (finding,) = findings_of(path)
    assert (finding.cause, finding.guilty) == ("extra-input-on-wrong-device", "lengths")
    (event,) = events_of(path)
    said = [render(each, language) for each in (*judge(event).reasons, judge(event).title, judge(event).cure)]
    assert all("lengths" in each for each in said)
    assert "one device" not in why_text(judge(event), language)
