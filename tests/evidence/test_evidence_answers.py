"""What is recorded of a program is what the rules see when it runs, and a lost answer is told."""

from __future__ import annotations

import json

import pytest

from evidence.bugs import answers
from evidence.zoo import zoo

PROGRAM = """# cause: {cause}
# guilty: mask
import torch
from torch import nn


class Masked(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        mask = torch.ones(4)
        return self.layer(x) * mask


Masked().cuda()(torch.ones(2, 4, device="cuda"))
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(answers, "FOLDER", tmp_path / "events")
    return tmp_path


def test_a_recorded_event_gets_the_answer_of_a_run(folder, capfd):
    program = folder / "masked.py"
    program.write_text(PROGRAM.format(cause="tensor-created-on-wrong-device"))
    assert answers.main([]) == 2  # nothing is there
    assert answers.main(["--record", str(program)]) == 0
    assert "programs: 1 of 1 right" in capfd.readouterr().out
    last = json.loads((answers.FOLDER / "last.json").read_text())
    assert last == {
        "programs/masked": {
            "cause": "tensor-created-on-wrong-device",
            "confidence": "likely",
            "guilty": "other",
            "right": True,
        }
    }


def test_a_lost_answer_is_told_and_fails(folder, capsys):
    before = {"programs/a": {"cause": "x", "confidence": "likely", "guilty": None, "right": True}}
    now = [("programs", "a", answers.Answer("y", "guess", None, False))]
    assert not answers.compare(before, now)
    assert capsys.readouterr().out == "a: x (right) -> y (guess, wrong)\nprograms: 0 of 1 right\n"
    assert answers.compare(before, [("programs", "a", answers.Answer("x", "guess", None, True))])


def test_a_case_out_of_view_is_not_named(folder, capsys):
    part = f"zoo, {zoo.UNSEEN}"
    before = {f"{part}/secret": {"cause": "x", "confidence": "likely", "guilty": None, "right": False}}
    answers.compare(before, [(part, "secret", answers.Answer("y", "guess", None, True))])
    assert "secret" not in capsys.readouterr().out
