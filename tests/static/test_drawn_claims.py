"""What the static reading claims of devices is what happens: a few of the programs that `static-claims` draws
by the thousand, and programs of one mechanism each.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import samedevice as sd
from evidence.lint import static_claims
from evidence.lint.claim_programs import Block, Program, program, text_of
from evidence.lint.static_claims import PACKAGE, claims, examined, judged, run, wrong

HEAD = """from dataclasses import dataclass
import torch
from torch import nn


class Part(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.ones(2, 2))
        self.state = torch.zeros(2, 2)

    def change(self, t):
        self.state = t

    def plain(self):
        return torch.ones(2, 2)

    @property
    def level(self):
        return torch.ones(2, 2)


def made():
    return torch.ones(2, 2)


def pair_of(t):
    return {"one": t, "two": torch.zeros(2, 2)}


class Whole(nn.Module):
    def __init__(self):
        super().__init__()
        self.part = Part()

    def forward(self, x: torch.Tensor, y: torch.Tensor, device, flag):
        "entered"
"""


def told_and_noted(tmp_path, body):
    """What is claimed of the notes in `forward`, and what happens there."""
    folder = tmp_path.resolve() / PACKAGE
    folder.mkdir()
    lines = "".join(f"        {line}\n" for line in body.split("\n"))
    for name, text in {"__init__": "", "other": "", "classes": "", "main": HEAD + lines}.items():
        (folder / f"{name}.py").write_text(text)
    told = claims(folder)
    noted = []
    with sd.machine("2x24GB", on_mismatch="raise"):
        for seed in range(6):
            noted += run(folder, told, seed)[0]
    assert not list(wrong(told, noted))
    return [claim.kind for _, claim in sorted(told.items())], noted


def test_drawn_programs_do_what_is_claimed():
    total = judged(range(8), shrink=False)
    assert not total.wrong, static_claims.told_of(*total.wrong[0])
    assert total.programs > 4
    assert total.kinds.total() > 20


@pytest.mark.long
def test_a_wrong_claim_is_found_and_made_smaller(monkeypatch):
    monkeypatch.setattr(static_claims, "_holds", lambda claim, noted: claim.kind == "unknown")
    total = judged(range(6), most_wrong=1)
    seed, drawn, _ = total.wrong[0]
    assert len(drawn.text("main")) < len(program(seed).text("main"))


def test_the_same_seed_draws_the_same_program():
    assert program(3).text("main") == program(3).text("main") != program(4).text("main")


def test_statements_become_source():
    assert text_of([Block("if x:", []), "y = 1"]) == "if x:\n    pass\ny = 1\n"


def test_a_program_that_is_no_python_is_passed_over(tmp_path):
    assert examined(Program({"main": ["x ="]}), tmp_path, 0) == []


@pytest.mark.parametrize(
    ("body", "kinds"),
    [
        (
            "a = y * 1\nfor _ in range(2):\n    if flag:\n        break\nelse:\n    a = made()\nnote(a)",
            ["unknown"],
        ),
        ("a = y * 1\nfor _ in range(2):\n    b = a\nelse:\n    a = made()\nnote(a)", ["default"]),
        ("x.data = torch.ones(2, 2, device='cuda:1')\nnote(x)", ["literal"]),
        ("self.part.table.data = made()\nnote(self.part.table)", ["unknown"]),
        ("a = x.mean() * dict(one=x).get('one')\nnote(a)", ["unknown"]),
        ("a = x\na.data = made()\nnote(x)\nnote(a)", ["unknown", "default"]),
        ("a = x if flag else y\na.data = made()\nb = torch.relu(x)\nnote(b)", ["unknown"]),
        ("with torch.device('cuda:1'):\n    a = self.part.plain()\n    note(a)", ["unknown"]),
        ("with torch.device('cuda:1'):\n    a = self.part.level\n    note(a)", ["unknown"]),
        ("with torch.device('cuda:1'):\n    a = torch.as_tensor(x)\n    note(a)", ["unknown"]),
        ("items = [x] * 2\nitems.insert(0, made())\na = items[0]\nnote(a)", []),
        ("items = [x] * 2\na = items[1]\nnote(a)", ["same"]),
        ("kept = {'one': x, 'two': made()}\nnote(kept['one'])\nnote(kept['two'])", ["same", "default"]),
        ("kept = {'one': x}\nother = kept\nother['one'] = made()\na = kept['one']\nnote(a)", []),
        ("kept = {}\nheld = [kept]\nkept['one'] = x\nheld[0]['one'] = made()\nnote(kept['one'])", []),
        ("kept = pair_of(x)\nnote(kept['one'])\nnote(kept['two'])", ["same", "default"]),
        ("note(pair_of(y)['one'])\nnote({'one': x}['one'])", ["same", "same"]),
        ("part = self.part\npart.state = x * 1\npart.change(made())\nnote(part.state)", []),
    ],
)
def test_what_happens_is_what_is_claimed(tmp_path, body, kinds):
    told, noted = told_and_noted(tmp_path, body)
    assert told == kinds
    assert len(noted) == 6 * len(re.findall("note", body)) or "range" in body or "with" in body


def test_the_folder_of_a_package_needs_no_file_of_its_own(tmp_path):
    from samedevice.static.tensors import parse_source

    inner = tmp_path / "package" / "data" / "kinds"
    inner.mkdir(parents=True)
    (tmp_path / "package" / "__init__.py").write_text("")
    for path, package in (
        (inner / "one.py", "package.data.kinds"),
        (tmp_path / "package" / "two.py", "package"),
        (tmp_path / "three.py", ""),
    ):
        source = parse_source(Path(path), "")
        assert source is not None
        assert source.package == package
