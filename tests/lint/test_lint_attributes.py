"""Strays that an object keeps: in another method of its class, in a part of a module, in an argument."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from samedevice.diagnosis.fixes import combined
from samedevice.lint import Options, check_file, check_text, chosen_rules

USUAL = Options(select=(*(rule.code for rule in chosen_rules(Options())), "SD201"), fixes=False)
"""The rules that are on by default, and SD201."""
HEAD = "from dataclasses import dataclass\n\nimport torch\nfrom torch import nn\n\n\n"


def found(text):
    """Codes with the source of their lines."""
    code = HEAD + dedent(text)
    findings = check_text(Path("model.py"), code, USUAL).findings
    return [(each.code, each.at.code) for each in findings]


MEMORY = """
class Memory(nn.Module):
    def __init__(self, size):
        super().__init__()
        self._begin(size)
        self.weight = nn.Parameter(torch.ones(size))

    def _begin(self, size):
        self.trace = torch.zeros(size, size)

    def clear(self):
        self.trace = torch.zeros_like(self.trace)

    def forward(self, x: torch.Tensor, trace=None):
        if trace is not None:
            self.trace = trace
        self.trace = 0.9 * self.trace + x * self.weight
        return self.trace
"""


def test_what_a_private_method_of_the_constructor_makes():
    assert found(MEMORY) == [("SD208", "self.trace = torch.zeros(size, size)")]


@pytest.mark.parametrize(
    ("now", "instead"),
    [
        ("self.trace = torch.zeros_like(self.trace)", "self.trace = torch.zeros(3, 3, device='cuda')"),
        ("self.trace = torch.zeros_like(self.trace)", "self.trace = self.trace.to(self.weight)"),
        ("if trace is not None:\n            self.trace = trace", "self._place(x)\n\n    def _place(self, x):"
         "\n        self.trace = torch.zeros_like(x)\n\n    def step(self, x, trace=None):"),
        ("if trace is not None:\n            self.trace = trace",
         "if self.trace.shape != x.shape:\n            self.trace = torch.zeros_like(x)"),
        ("self.trace = torch.zeros(size, size)", "self.register_buffer('trace', torch.zeros(size, size))"),
        ("self._begin(size)", "self.begin = self._begin"),
    ],
)  # fmt: skip
def test_what_another_method_may_put_elsewhere(now, instead):
    assert now in MEMORY
    assert found(MEMORY.replace(now, instead)) == []


PARTS = """
class Grid:
    def __init__(self, size):
        self.steps = torch.arange(size).float(){move}

    def corners(self, count):
        return torch.ones(count, 4)


class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.mean = torch.ones(4)
        self.weight = nn.Parameter(torch.ones(4))

    def forward(self, x):
        return x * self.weight


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.grid = Grid(4)
        self.norm = Norm()
        self.head = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor):
        return {value}
"""


@pytest.mark.parametrize(
    ("value", "line"),
    [
        ("self.head(x) + self.grid.steps", "self.steps = torch.arange(size).float()"),
        ("x - self.norm.mean", "self.mean = torch.ones(4)"),
    ],
)
def test_what_a_part_keeps_as_a_plain_attribute(value, line):
    assert found(PARTS.format(value=value, move="")) == [("SD208", line)]


def test_what_a_method_of_a_part_makes():
    text = PARTS.format(value="self.head(x) * self.grid.corners(4)", move="")
    assert found(text) == [("SD201", "return torch.ones(count, 4)")]


@pytest.mark.parametrize(
    "text",
    [
        PARTS.format(value="self.head(x) * self.norm.weight", move=""),
        PARTS.format(value="self.head(x) + self.grid.steps.to(x)", move=""),
        PARTS.format(value="self.head(x) + self.grid.steps", move=".cuda()"),
        PARTS.format(value="self.head(x) + self.grid.steps", move="")
        + "\n    def place(self, x):\n        self.grid.steps = self.grid.steps.to(x.device)\n",
        PARTS.format(value="self.head(x) * self.grid.corners(4).to(x.device)", move=""),
    ],
)
def test_parts_that_keep_nothing_on_the_host_for_good(text):
    assert [code for code, line in found(text) if line.startswith(("self.", "return"))] == []


ARGUMENTS = """
@dataclass
class Batch:
    words: torch.Tensor
    mask: torch.Tensor | None = None
    count: int = 2


class Rows:
    def __init__(self, size):
        self.table = torch.arange(size)
"""


@pytest.mark.parametrize(
    "function",
    [
        "def f(batch: Batch):\n    return batch.mask * torch.ones(batch.count)",
        "def f(batch):\n    return torch.relu(batch.words) * torch.ones(4, 4)",
        "def f(graph):\n    return graph.nodes.feature.unsqueeze(-1) + torch.arange(4)",
    ],
)
def test_what_an_argument_keeps_is_where_the_argument_is(function):
    assert [code for code, _ in found(f"{ARGUMENTS}\n\n{function}\n")] == ["SD201"]


def test_what_the_class_of_an_argument_makes():
    text = ARGUMENTS + "\n\ndef f(rows: Rows, x: torch.Tensor):\n    return x + rows.table\n"
    assert found(text) == [("SD208", "self.table = torch.arange(size)")]


@pytest.mark.parametrize(
    "function",
    [
        "def f(batch):\n    return torch.arange(4)[None] < batch.lengths.unsqueeze(1)",
        "def f(batch: Batch, device):\n    return batch.mask * torch.ones(3, device=batch.mask.device)",
        "def f(rows: Rows, x: torch.Tensor):\n    rows.table = rows.table.to(x)\n    return x + rows.table",
        "def f(batch):\n    return batch.words + torch.arange(4)",
    ],
)
def test_arguments_of_which_too_little_is_told(function):
    assert found(f"{ARGUMENTS}\n\n{function}\n") == []


PASSED = """
def mapped(data, function, *args, **kwargs):
    if isinstance(data, (list, tuple)):
        return [mapped(each, function, *args, **kwargs) for each in data]
    return function(data, *args, **kwargs)


def drawn(*args):
    rows = torch.randint(3, (3,){place})
    return mapped(args, torch.index_select, dim=0, index=rows)
"""


def test_a_function_that_is_handed_over_with_its_arguments():
    assert found(PASSED.format(place="")) == [("SD201", "rows = torch.randint(3, (3,))")]
    assert found(PASSED.format(place=", device=args[0].device")) == []


def test_arguments_that_are_changed_on_the_way_are_not_told():
    text = PASSED.format(place="").replace(
        "    if isinstance", "    kwargs['index'] = kwargs['index'].to(data)\n    if isinstance"
    )
    assert found(text) == []


def test_a_function_without_a_name():
    flagged = "def f(x: torch.Tensor):\n    scaled = lambda y: y * torch.arange(4)\n    return scaled(x)\n"
    assert [code for code, _ in found(flagged)] == ["SD201"]
    assert found(flagged.replace("arange(4)", "arange(4, device=y.device)")) == []


def test_what_a_statement_that_fails_leaves_as_it_was():
    text = """
    def f(x: torch.Tensor, pad):
        try:
            x = pad(x)
        except ValueError:
            x = torch.flatten(x)
        return torch.cat([x, torch.ones(3)])
    """
    assert [code for code, _ in found(text)] == ["SD201"]


def test_a_number_by_the_annotation_of_its_property():
    text = """
    class Model(nn.Module):
        @property
        def width(self) -> int:
            raise NotImplementedError


    class Sampled(nn.Module):
        def __init__(self, model: Model):
            super().__init__()
            self.model = model
            self.noise = torch.randn(model.width)

        def forward(self, x: torch.Tensor):
            return self.model(x) * self.noise
    """
    assert found(text) == [("SD208", "self.noise = torch.randn(model.width)")]


GRID = """
class Grid(nn.Module):
    def __init__(self):
        super().__init__()
        self.steps = torch.arange(4)
        self.weight = nn.Parameter(torch.ones(4))

    def forward(self, x: torch.Tensor):
        return self.weight * self.steps
"""
FINE = """
class Fine(Grid):
    def __init__(self):
        super().__init__()
        self.{name} = torch.ones(4, device="cuda")
"""


@pytest.mark.parametrize(("name", "codes"), [("steps", []), ("other", ["SD208"])])
def test_what_a_derived_class_gives_itself(name, codes, tmp_path):
    (tmp_path / "__init__.py").write_text("")
    (tmp_path / "grid.py").write_text(HEAD + GRID)
    (tmp_path / "fine.py").write_text("import torch\n\nfrom .grid import Grid\n" + FINE.format(name=name))
    findings = check_file(tmp_path / "grid.py", USUAL).findings
    assert [each.code for each in findings] == codes


# -- moved copies of parameters


def test_what_a_part_was_given_is_no_tensor_for_sure():
    text = """
    from elsewhere import packed

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(4, 4)

        def merge(self, data, device):
            self.linear.weight = packed(data)
            self.linear.weight.cuda(device)

        def place(self, device):
            self.linear.weight.cuda(device)
    """
    assert found(text) == [("SD210", "self.linear.weight.cuda(device)")]


def test_the_fix_leaves_a_parameter_a_parameter():
    text = HEAD + dedent(
        """
        class Layer(nn.Module):
            def __init__(self):
                super().__init__()
                self.scale = nn.Parameter(torch.ones(3))

            def place(self, device):
                self.scale.to(device)
        """
    )
    (finding,) = check_text(Path("model.py"), text, Options(select=("SD210",))).findings
    repaired, refused = combined(text, [finding.fixes[0].diff])
    assert not refused and "self.scale.data = self.scale.data.to(device)" in repaired
    names: dict = {}
    exec(repaired, names)
    layer = names["Layer"]()
    layer.place("cpu")
    assert [name for name, _ in layer.named_parameters()] == ["scale"]
