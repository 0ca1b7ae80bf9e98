"""Scripts are short, are what users write, and make what the case was called with."""

from __future__ import annotations

import pytest
import torch

from samedevice.sweep._case import Case
from samedevice.sweep._scripts import MOST_LINES, changes_of, literal, script_of


@pytest.mark.parametrize(
    "tensor",
    [
        torch.tensor([[1, 2, 3], [4, 5, 6]]),
        torch.tensor([[1, *([7] * 20), 3], [1, *([7] * 20), 3]]),
        torch.ones(2, 3, dtype=torch.int64),
        torch.ones(2, dtype=torch.bool),
        torch.tensor([[1, 4, 4], [1, 4, 4]]),
    ],
)
def test_a_literal_makes_the_tensor(tensor):
    made = eval(literal(tensor))
    assert torch.equal(made, tensor)
    assert made.dtype == tensor.dtype


def test_numbers_are_drawn_in_the_same_shape():
    assert literal(torch.zeros(2, 3)) == "torch.randn(2, 3)"


def test_repeated_values_are_short():
    assert literal(torch.tensor([[1] + [7] * 500])) == "torch.tensor([1] + [7] * 500).expand(1, 501).clone()"


def test_only_what_differs_is_given():
    default = {"a": 1, "b": 2, "part": {"model_type": "x", "c": 3, "d": 4}, "architectures": None}
    made = {"a": 1, "b": 5, "part": {"model_type": "x", "c": 9, "d": 4}, "architectures": ["X"]}
    assert changes_of(default, made) == {"b": 5, "part": {"model_type": "x", "c": 9}}


def case(fields):
    inputs = {"input_ids": torch.arange(16).reshape(2, 8)}
    made = Case(None, inputs, {"labels": torch.zeros(2, dtype=torch.int64)}, "1/16")
    made.origin = ("transformers", "XForY", "XConfig", {f"field_{n}": n for n in range(fields)})
    return made


@pytest.mark.parametrize("fields", [1, 10, 60])
@pytest.mark.parametrize("action", ["loss", "greedy", "train"])
def test_a_script_is_short_and_compiles(fields, action):
    text = script_of(case(fields), action, "auto", {0: 1000, 1: 1 << 40})
    assert text is not None
    assert len(text.splitlines()) <= MOST_LINES
    compile(text, "script", "exec")
    assert ("labels" in text) == (action != "greedy")
    assert "samedevice" not in text
    assert "max_memory={0: 1000, 1: '1000GB'}" in text
