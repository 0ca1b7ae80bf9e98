"""Strays that are made in one function or file and meet what is placed in another."""

from __future__ import annotations

from textwrap import dedent

import pytest

from samedevice.lint import Options, check_file, chosen_rules

USUAL = (*(rule.code for rule in chosen_rules(Options())), "SD201")
"""The rules that are on by default, and SD201."""


@pytest.fixture
def package(tmp_path):
    """Writes the files of a package and lints one of them."""

    def lint(name, select=(), **files):
        folder = tmp_path / "parts"
        folder.mkdir(exist_ok=True)
        for stem, text in {"__init__": "", **files}.items():
            (folder / f"{stem}.py").write_text(dedent(text))
        return check_file(folder / f"{name}.py", Options(select=select or USUAL, fixes=False)).findings

    return lint


USER = """
import torch
from parts.helpers import scaled


def positions(x: torch.Tensor):
    steps = torch.arange(4{})
    return scaled(x, steps)
"""
HELPERS = """
import torch


def scaled(x, steps):
    return inner(x, steps)


def inner(x, steps):
    return x * steps
"""


def test_what_is_made_here_meets_an_input_in_another_file(package):
    (found,) = package("user", user=USER.format(""), helpers=HELPERS)
    assert (found.code, found.at.line) == ("SD201", 7)
    (reason,) = found.reasons
    assert dict(reason.values)["file"] == "parts/helpers.py"
    assert dict(reason.values)["line"] == "10"


def test_what_is_made_on_the_device_of_the_input_is_silent(package):
    assert package("user", user=USER.format(", device=x.device"), helpers=HELPERS) == ()


@pytest.mark.parametrize(
    "way", ["from parts.tables import table", "from parts import tables", "from parts.tables import *"]
)
def test_what_another_file_makes_meets_an_input_here(package, way):
    name = "tables.table" if way.endswith("tables") else "table"
    user = f"import torch\n{way}\n\n\ndef shifted(x: torch.Tensor):\n    return x + {name}(4)\n"
    tables = "import torch\n\n\ndef table(n):\n    return torch.ones(n)\n"
    (found,) = package("user", user=user, tables=tables)
    assert (found.code, found.at.line) == ("SD201", 6)
    placed = tables.replace("table(n)", "table(n, device='cuda')").replace("(n)\n", "(n, device=device)\n")
    assert package("user", user=user, tables=placed) == ()


def test_a_mask_is_followed_into_the_parts_of_a_module(package):
    user = """
    import torch
    from torch import nn
    from parts.attention import Attention


    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = Attention()

        def forward(self, x, mask):
            return self.attention(x, mask)


    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([Layer() for _ in range(2)])

        def forward(self, x, mask=None):
            if mask is None:
                mask = torch.ones(x.shape[:2])
            for layer in self.layers:
                x = layer(x, mask)
            return x
    """
    attention = """
    import torch
    from torch import nn


    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.proj = nn.Linear(4, 4)

        def forward(self, x, mask):
            return self.proj(x).masked_fill(mask.unsqueeze(1).eq(0), 0.0)
    """
    (found,) = package("user", user=user, attention=attention)
    assert (found.code, found.at.line) == ("SD201", 23)
    assert package("user", user=user.replace("[:2])", "[:2], device=x.device)"), attention=attention) == ()


def test_the_current_gpu_that_another_file_chooses(package):
    user = """
    import torch
    from parts.helpers import total


    def curve(x: torch.Tensor, y: torch.Tensor):
        at = torch.where(x > 0)[0]
        return total(y)[at]
    """
    helpers = """
    import torch


    def total(x):
        if x.is_cuda:
            return x.cpu().cumsum(0).{}
        return torch.cumsum(x, 0)
    """
    (found,) = package("user", user=user, helpers=helpers.format("cuda()"))
    assert found.code == "SD220"
    assert package("user", user=user, helpers=helpers.format("to(x.device)")) == ()


TOWERS = """
import torch
from torch import nn
from transformers import PreTrainedModel


class Tower(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.blocks = nn.ModuleList([nn.Linear(4, 4) for _ in range(config.depth)])

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


def joined(one, other):
    return one @ other.t()


class Pair(PreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.text = Tower(config)
        self.image = {}

    def forward(self, ids: torch.Tensor, pixels: torch.Tensor):
        return joined(self.text(ids), self.image(pixels){})
"""


def test_two_towers_meet_in_a_function_of_the_file(package):
    (found,) = package("user", ["SD223"], user=TOWERS.format("Tower(config)", ""))
    assert found.at.line == 19
    assert package("user", ["SD223"], user=TOWERS.format("nn.Linear(4, 4)", "")) == ()
    (small,) = package("user", ["SD218"], user=TOWERS.format("nn.Linear(4, 4)", ""))
    assert small.at.line == 19
    moved = TOWERS.format("Tower(config)", "").replace("other.t()", "other.to(one.device).t()")
    assert package("user", ["SD218", "SD223"], user=moved) == ()


WRITTEN = [
    "total = torch.tensor(0.0)\n    for one in views:\n        total += one.mean()\n    return total",
    "state = {}\n    state['sum'] = torch.zeros(3)\n    state['sum'].add_(views[0])\n    return state",
    "return [torch.index_select(one, 0, torch.tensor([1, 2])) for one in views]",
    "a, b = views\n    return torch.cat([a, torch.ones(3)])",
]


@pytest.mark.parametrize("body", WRITTEN)
def test_lists_of_tensors_are_followed(package, body):
    head = "import torch\nfrom typing import Sequence\n\n\ndef f(views: Sequence[torch.Tensor]):\n    "
    assert [each.code for each in package("user", user=head + body)] == ["SD201"]
    for maker in ("tensor(0.0", "zeros(3", "tensor([1, 2]", "ones(3"):
        body = body.replace(f"torch.{maker})", f"torch.{maker}, device=views[0].device)")
    assert package("user", user=head + body) == ()


def test_a_total_of_the_host_that_gets_numbers_is_silent(package):
    text = """
    import torch
    from typing import List


    def f(views: List[torch.Tensor]):
        total = torch.tensor(0.0)
        for one in views:
            total += one.mean().item()
            total = total + one.mean()
        return total
    """
    assert package("user", user=text) == ()


def test_a_module_that_is_made_and_stays_on_the_host_is_silent(package):
    user = """
    import torch
    from torch import nn


    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.proj = nn.Linear(4, 4)

        def forward(self, x, mask):
            return self.proj(x) * mask


    def example():
        layer = Layer()
        return layer(torch.ones(4, 4), torch.ones(4))
    """
    assert package("user", user=user) == ()
    assert (
        package("user", user=user.replace("Layer()\n        return", "Layer().cuda()\n        return")) != ()
    )


def test_an_object_of_another_file_that_moves_itself_is_silent(package):
    user = (
        "from parts.helpers import load\n\n\ndef f(device):\n    model = load(device)\n    model.to(device)\n"
    )
    helpers = "import torch\n\n\ndef load(device):\n    return torch.load('x').to(device)\n"
    assert package("user", user=user, helpers=helpers) == ()


def test_an_entry_of_a_dictionary_that_another_may_change_is_not_claimed(package):
    text = """
    import torch


    def f(x: torch.Tensor, moved):
        state = {}
        state["sum"] = torch.zeros(3)
        moved(state)
        return x + state["sum"]
    """
    assert package("user", user=text) == ()


@pytest.mark.parametrize("forgets", ["self.keys = None", "self.keys += x"])
def test_what_a_method_forgets_or_adds_up_is_no_cache(package, forgets):
    text = """
    import torch
    from torch import nn


    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.keys = None

        def reset(self, x):
            {}

        def forward(self, x: torch.Tensor):
            if self.keys is None:
                self.keys = torch.zeros(4, device=x.device)
            return x + self.keys
    """
    assert package("user", ("SD209",), user=text.format(forgets)) == ()
    kept = package("user", ("SD209",), user=text.format("pass"))
    assert [each.code for each in kept] == ["SD209"]


KEEPING = """
import torch
from torch import nn


class Windowed(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.window = torch.hann_window(size)

    def mask(self, size):
        return torch.ones(size, size)


class Grid:
    def __init__(self, size):
        self.steps = torch.arange(size)

    def corners(self, count):
        return torch.zeros(count, 4)
"""
KEPT = """
import torch
from torch import nn
from parts.base import Grid, Windowed


class Framed(Windowed):
    def __init__(self):
        super().__init__(4)
        self.grid = Grid(4)

    def forward(self, x: torch.Tensor):
        return {}
"""


@pytest.mark.parametrize(
    ("value", "code"),
    [
        ("x * self.window", "SD208"),
        ("x + self.grid.steps", "SD208"),
        ("x * self.mask(4)", "SD201"),
        ("x + self.grid.corners(4)", "SD201"),
    ],
)
def test_what_a_class_of_another_file_keeps_or_makes(package, value, code):
    (found,) = package("user", user=KEPT.format(value), base=KEEPING)
    assert (found.code, found.at.line) == (code, 13)
    assert dict(found.reasons[0].values)["file"] == "parts/base.py"


@pytest.mark.parametrize(
    "value", ["x * self.window.to(x)", "x + self.grid.steps.to(x.device)", "x.cpu() * self.mask(4)"]
)
def test_what_is_moved_on_its_way_from_another_file(package, value):
    assert package("user", user=KEPT.format(value), base=KEEPING) == ()
