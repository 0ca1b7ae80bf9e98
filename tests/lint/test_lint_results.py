"""What a function makes without the device that it was given, and what tells that something is a tensor."""

from __future__ import annotations

from textwrap import dedent

import pytest

from samedevice.lint import Options, check_file

HEAD = """
import torch
import torch.distributed as dist
import numpy as np
"""


@pytest.fixture
def codes(tmp_path):
    """The codes of a file of a package, by the rules that are chosen."""

    def lint(text, *select, name="parts/model.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name.partition("/")[0] / "__init__.py").write_text("")
        path.write_text(HEAD + dedent(text))
        return [each.code for each in check_file(path, Options(select=select, fixes=False)).findings]

    return lint


IGNORED = [
    "def f(n, device):\n    return torch.ones(n, 2)\n",
    "def f(n, device):\n    made = {'a': torch.ones(n, 2, device=device)}\n"
    "    made['b'] = torch.ones(n, 3)\n    return made\n",
    "def f(n, device=None):\n    a = torch.eye(n, device=device)\n    b = torch.eye(n)[None]\n"
    "    return g(a, b)\n",
]
OBEYED = [
    "def f(n, device):\n    return torch.ones(n, 2, device=device)\n",
    "def f(n, device):\n    return torch.tensor(1.0)\n",
    "def f(n, device):\n    a = torch.eye(n, device=device)\n    return a, torch.eye(n).to(a.device)\n",
    "def f(n, device):\n    a = torch.eye(n, device=device)\n    order = torch.randperm(n)\n"
    "    return a[order]\n",
    "def f(n, device):\n    a = torch.eye(n, device=device)\n    k = torch.randint(0, n, (1,)).item()\n"
    "    return a * k\n",
    "def f(n, device):\n    a = torch.zeros(n, device=device)\n    a[::2] = 1 / torch.arange(n)\n"
    "    return a\n",
    "def data_collator(rows, device):\n    return torch.LongTensor([len(row) for row in rows])\n",
    "def f(model, device):\n    model.to(device)\n    return torch.zeros(3)\n",
]


@pytest.mark.parametrize("text", IGNORED)
def test_what_is_made_beside_the_device_that_was_asked_for_is_flagged(codes, text):
    assert codes(text, "SD225") == ["SD225"]


@pytest.mark.parametrize("text", OBEYED)
def test_what_is_sent_read_or_an_index_is_not(codes, text):
    assert codes(text, "SD225") == []


@pytest.mark.parametrize(
    ("text", "flagged"),
    [
        (
            "def f(x: torch.Tensor):\n    if x.ndim > 2:\n        return x * 2\n    return torch.ones(3)\n",
            True,
        ),
        (
            "def f(x: torch.Tensor, n):\n    if n:\n        m = torch.ones(n, 2)\n    else:\n"
            "        m = x > 0\n    return x, m\n",
            True,
        ),
        (
            "def f(n, x: torch.Tensor = None):\n    if x is None:\n        return torch.ones(n, 2)\n"
            "    return x * 2\n",
            False,
        ),
        (
            "def f(x: torch.Tensor, n):\n    m = torch.ones(3)\n    for _ in range(n):\n        m = x\n"
            "    return m\n",
            False,
        ),
    ],
)
def test_a_result_that_is_on_the_host_on_one_way(codes, text, flagged):
    assert codes(text, "SD226") == ["SD226"] * flagged


def test_a_gpu_is_written_for_other_processes_and_to_begin(codes):
    text = "def f(x):\n    x = x.data.cuda()\n    {}\n    return x\n"
    assert codes(text.format("pass"), "SD202") == ["SD202"]
    assert codes(text.format("dist.all_reduce(x)"), "SD202") == []
    assert codes("def f():\n    torch.zeros(1, device='cuda')\n", "SD202") == []
    assert codes(text.format("pass"), "SD202", name="parts/cli.py") == []


@pytest.mark.parametrize(
    ("given", "flagged"), [("x.device", True), ("torch.float16", False), ("dtype=kind", False)]
)
def test_a_copy_of_another_type_that_is_thrown_away_is_no_move(codes, given, flagged):
    text = f"def f(x: torch.Tensor, y: torch.Tensor, kind):\n    y.to({given})\n    return x + y\n"
    assert codes(text, "SD210") == ["SD210"] * flagged


def test_what_is_asked_for_its_device_is_a_tensor_where_it_is_computed_with(codes):
    text = "def f(source):\n    row = source.next_one()\n    {}\n    return row * torch.arange(4)\n"
    assert codes(text.format("print(row.device)"), "SD201") == ["SD201"]
    assert codes(text.format("pass"), "SD201") == []
    kept = "class A:\n    def f(self):\n        {}\n        return self.rows + torch.ones(3)\n"
    assert codes(kept.format("print(self.rows.device)"), "SD201") == ["SD201"]
    assert codes(kept.format("pass"), "SD201") == []


def test_an_array_becomes_a_tensor_of_the_host(codes):
    text = "def f(x: torch.Tensor, rows):\n    return x * torch.from_numpy(rows){}\n"
    assert codes(text.format(""), "SD201") == ["SD201"]
    assert codes(text.format(".to(x)"), "SD201") == []


def test_an_argument_that_may_be_none_says_nothing_of_what_a_function_does(codes):
    text = """
    def helper(t, beside=None):
        made = torch.ones(4, 4)
        if beside is not None:
            made = made.to(beside.device)
        return made

    def f(x: torch.Tensor, other: torch.Tensor = None):
        {}
        return x * helper(x, {})
    """
    assert codes(text.format("pass", "x"), "SD201") == []
    assert codes(text.format("pass", "None"), "SD201") == ["SD201"]


def test_a_public_function_that_a_package_gives_tensors_of_the_host_alone_is_not_flagged(codes):
    text = """
    class Table(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.made = self.turned(torch.arange(8))

        def turned(self, index):
            return torch.outer(index, torch.arange(4))

        def grow(self, x: torch.Tensor):
            self.made = self.turned({})
    """
    assert codes(text.format("torch.arange(16)"), "SD201") == []
    assert codes(text.format("x"), "SD201") == ["SD201"]


def test_folders_of_data_count_without_a_file_of_their_own(codes):
    text = "def f(rows: torch.Tensor):\n    mask = torch.zeros(4)\n    return mask * rows\n"
    assert codes(text, "SD201", name="parts/data/kinds/model.py") == []
    assert codes(text, "SD201", name="parts/heads/kinds/model.py") == ["SD201"]


def test_functions_that_compare_need_both_on_one_device(codes):
    text = "def f(x: torch.Tensor):\n    return torch.allclose(x, torch.eye(4{}))\n"
    assert codes(text.format(""), "SD201") == ["SD201"]
    assert codes(text.format(", device=x.device"), "SD201") == []


def test_states_of_layers_that_follow_the_layer_are_not_flagged(codes):
    text = """
    class Cache:
        def __init__(self, config, device, places):
            self.rows = [torch.zeros(2, 3, device={}) for number in range(config.num_layers)]

        def of(self, layer_idx):
            return self.rows[{}]
    """
    assert codes(text.format("device", "layer_idx"), "SD228") == ["SD228"]
    assert codes(text.format("places[number]", "layer_idx"), "SD228") == []
    assert codes(text.format("device", "0"), "SD228") == []


def test_what_is_given_to_numpy_as_it_is_is_on_the_host(codes):
    text = "def f(x: torch.Tensor):\n    rows = x[:2]{}.numpy()\n    return x + torch.arange(4), rows\n"
    assert codes(text.format(".cpu()"), "SD201", name="parts/other.py") == ["SD201"]
    assert codes(text.format(""), "SD201") == []


def test_a_tensor_is_no_array_where_a_function_asks(codes):
    text = """
    def sent(data, device):
        if isinstance(data, dict):
            return {{key: sent(each, device) for key, each in data.items()}}
        if isinstance(data, list):
            return sent(torch.tensor(data), device)
        elif isinstance(data, torch.Tensor):
            return data.to(device)
        else:
            return data

    def f(x: torch.Tensor):
        return x + sent(torch.ones(3), {})
    """
    assert codes(text.format("x.device"), "SD201") == []
    assert codes(text.format("'cpu'"), "SD201") == []


@pytest.mark.parametrize("kind", ["trace(m)", "dot(m[0], m[1])", "dist(m, m)"])
def test_what_is_counted_up_has_no_dimensions(codes, kind):
    text = "def f(x: torch.Tensor):\n    m = torch.ones(4, 4)\n    return x * torch.{}\n"
    assert codes(text.format(kind), "SD201") == []
    assert codes(text.format("triu(m)"), "SD201") == ["SD201"]


def test_what_a_part_gave_may_be_a_tuple_where_a_function_asks(codes):
    text = """
    def first(rows):
        if isinstance(rows, tuple):
            return torch.ones(3)
        return rows

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.body = Body()

        def forward(self, x: torch.Tensor):
            return x + first(self.body({}))
    """
    assert codes(text.format("x"), "SD201") == ["SD201"]


def test_a_branch_that_torch_chooses_is_not_where_its_question_is(codes):
    text = """
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(torch.ones(3))

        def forward(self, x):
            y = torch.cond(torch.zeros(1, dtype=torch.bool), torch.sin, torch.cos, (x,))
            return self.w * y
    """
    assert codes(text, "SD201") == []


@pytest.mark.parametrize(
    ("line", "fixed"),
    [
        ("print(hidden + torch.arange(8))", "print(hidden + torch.arange(8, device=hidden.device))"),
        ("print(model(torch.ones(2, 8)))", None),  # a module has no device of its own
        ("print(model(hidden) + torch.arange(8))", None),
    ],
)
def test_a_tensor_of_the_host_beside_one_that_the_code_puts_on_a_gpu(tmp_path, line, fixed):
    text = f"""import torch

device = "cuda" if torch.cuda.is_available() else "cpu"
model = torch.nn.Linear(8, 8).to(device)
hidden = torch.ones(2, 8, device=device)
{line}
"""
    path = tmp_path / "program.py"
    path.write_text(text)
    (found,) = check_file(path, Options()).findings
    assert (found.code, found.at.line) == ("SD229", 6)
    changed = [each[1:] for fix in found.fixes for each in (fix.diff or "").splitlines() if each[:2] == "+p"]
    assert changed == ([fixed] if fixed else [])
    path.write_text(text.replace(".to(device)", "").replace(", device=device", ""))
    assert not check_file(path, Options()).findings
