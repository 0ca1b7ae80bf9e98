"""What a tensor is made with tells its dimensions; what is asked and wrapped tells what a value is."""

from __future__ import annotations

from pathlib import Path

import pytest

from samedevice.lint import Options, check_text, chosen_rules

USUAL = Options(select=(*(rule.code for rule in chosen_rules(Options())), "SD201"), fixes=False)
"""The rules that are on by default, and SD201."""
HEAD = "import torch\nfrom functools import wraps\nfrom torch import nn\n\n\n"


def codes(text):
    return [finding.code for finding in check_text(Path("model.py"), HEAD + text, USUAL).findings]


@pytest.mark.parametrize(
    "size",
    [
        "x.shape",
        "x.size()",
        "*x.shape",
        "x.shape[0]",
        "n",
        "len(x)",
        "b",
        "x.shape[:2]",
        "(b,) + x.shape[1:]",
    ],
)
def test_a_tensor_of_a_number_or_of_anothers_size_has_dimensions(size):
    text = f"def f(x: torch.Tensor, n: int):\n    b, c = x.shape\n    return x * torch.ones({size})\n"
    assert codes(text) == ["SD201"]
    assert codes(text.replace("torch.ones(", "torch.ones_like(x), (")) == []


@pytest.mark.parametrize("size", ["size", "x.shape[:-1]", "x.shape[1:]", "()"])
def test_a_size_that_may_be_empty_is_not_taken_for_one(size):
    assert codes(f"def f(x: torch.Tensor, size):\n    return x * torch.ones({size})\n") == []


def test_an_index_leaves_the_dimensions_that_it_does_not_take():
    text = "def f(x: torch.Tensor, n: int):\n    grid = torch.zeros(n, n, 3)\n    return x + grid[{}]\n"
    assert codes(text.format("..., 1")) == codes(text.format("0, 1")) == ["SD201"]
    assert codes(text.format("0, 1, 2")) == codes(text.format("(0, 1, 2)")) == []


@pytest.mark.parametrize("test", ["isinstance(x, torch.Tensor)", "torch.is_tensor(x) and x.ndim"])
def test_what_is_asked_whether_it_is_a_tensor_is_one_there(test):
    text = f"def f(x):\n    if {test}:\n        return x + torch.ones(3)\n    return x\n"
    assert codes(text) == ["SD201"]
    assert codes(text.replace("return x\n", "return x * torch.ones(3)\n")) == ["SD201"]
    assert codes(text.replace("return x + torch.ones(3)", "pass")) == []


def test_what_is_no_tensor_has_been_sent_away():
    text = "def f(x):\n    if not torch.is_tensor(x):\n        return x\n    return x + torch.ones(3)\n"
    assert codes(text) == ["SD201"]
    text = (
        "def f(x):\n    if not torch.is_tensor(x):\n        y = 1\n    else:\n        y = x + torch.ones(3)\n"
    )
    assert codes(text) == ["SD201"]


WRAPPED = """def quiet(function):
    @wraps(function)
    def wrapper(self, x, steps):
        return function(self, x, steps)

    return wrapper


class Scale(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))

    @quiet
    def forward(self, x, steps):
        return self.weight * steps


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = Scale()

    def forward(self, x: torch.Tensor):
        return self.scale(x, torch.arange(4))
"""


def test_a_wrapper_that_only_calls_what_it_wraps_is_followed():
    assert codes(WRAPPED) == ["SD201"]
    moved = WRAPPED.replace(
        "        return function", "        steps = steps.to(x.device)\n        return function"
    )
    assert codes(moved) == []
    assert codes(WRAPPED.replace("return function(self, x, steps)", "return function(self, x, x)")) == []


def test_a_part_without_weights_gives_what_its_forward_gives():
    text = """class Steps(nn.Module):
    def forward(self, steps):
        return steps[:, None] * 2


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.steps = Steps()
        self.proj = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor):
        return self.proj(self.steps(torch.arange(4)))
"""
    assert codes(text) == ["SD201"]
    assert codes(text.replace("arange(4)", "arange(4, device=x.device)")) == []


def test_a_method_is_asked_of_its_class():
    text = """class Loss:
    @staticmethod
    def apart(x, y):
        total = torch.zeros(x.shape[0])
        return total + y

    def forward(self, x: torch.Tensor, y: torch.Tensor):
        return Loss.apart(x, y)
"""
    assert codes(text) == ["SD201"]
    assert codes(text.replace("shape[0])", "shape[0], device=x.device)")) == []


@pytest.mark.parametrize(
    "body",
    [
        "h = torch.zeros(n)\n    h[0] = h[1:3] = 1\n    return h * x",
        "h = torch.zeros(n)\n    first = h[0]\n    return h * x * first",
        "return x * torch.ones(x.shape[-2:])",
        "return x * torch.ones(n).tril(0)",
        "return x * torch.triu(torch.ones(n))",
        "return x + torch.arange(3).expand_as(x)",
        "return x * torch.rand(3, 1).ge_(0.5).div(2)",
        "for _ in range(n):\n        x = x + torch.ones(n)\n    return x",
        "return torch.linalg.solve_triangular(x, torch.eye(3), upper=True)",
        "return x.to(kind(x)) * torch.eye(3)",
    ],
)
def test_what_shows_that_a_tensor_has_dimensions(body):
    helper = "def kind(x) -> torch.dtype:\n    return TYPES[x.device]\n\n\n"
    assert codes(f"{helper}def f(x: torch.Tensor, n):\n    {body}\n") == ["SD201"]


@pytest.mark.parametrize(
    "body",
    [
        "h = torch.zeros(n)\n    h[...] = 1\n    return h * x",
        "h = torch.zeros(n)\n    h[x > 0] = 1\n    return h",
        "return x * torch.ones(n).t()",
        "return x.to(where(x)) * torch.eye(3, device=where(x))",
        "return x * torch.ones(x.shape[n:])",
    ],
)
def test_what_a_tensor_of_no_dimensions_allows_too(body):
    assert codes(f"def f(x: torch.Tensor, n, where):\n    {body}\n") == []
