"""What lint must not flag: code that is right, or of which reading cannot tell."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from samedevice.lint import Options, check_text, chosen_rules
from samedevice.static.tensors import Project, Reading, parse_source

HEAD = "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n\n\n"
DEFAULT = Options(select=(*(rule.code for rule in chosen_rules(Options())), "SD201"))
"""The rules that are on by default, and SD201."""


def codes(text, name="model.py"):
    return [finding.code for finding in check_text(Path(name), HEAD + text, DEFAULT).findings]


@pytest.mark.parametrize(
    "body",
    [
        "return x[torch.arange(x.shape[0])]",
        "return x * torch.tensor(2.0)",
        "return x + torch.zeros(())",
        "return x + torch.arange(4).to(x)",
        "return x + torch.arange(4, device=x.device)",
        "return x + torch.ones_like(x)",
        "t = torch.arange(4)\n    t = t.to(x.device)\n    return x + t",
        "t = torch.arange(4)\n    if x.is_cuda:\n        t = t.cuda()\n    return x + t.type_as(x)",
        "with torch.device(x.device):\n        return x + torch.arange(4)",
        "return x.cpu() + torch.arange(4)",
        "return torch.where(x > 0, x, torch.tensor(0.0))",
        "return sum(torch.arange(3).tolist()) + x",
    ],
)
def test_tensors_that_are_together_or_need_not_be(body):
    assert codes(f"def f(x: torch.Tensor):\n    {body}\n") == []


def test_the_same_function_with_a_stray_tensor_is_flagged():
    assert codes("def f(x: torch.Tensor):\n    return x + torch.arange(4)\n") == ["SD201"]
    late = (
        "def f(x: torch.Tensor, mask=None):\n    if mask is None:\n"
        "        mask = torch.ones(4, 4)\n    return x * mask\n"
    )
    assert codes(late) == ["SD201"]


MEETS = [
    "t = [torch.ones(3)]\n    t.append(torch.zeros(3))\n    return x + torch.cat(t)",
    "def inner(y):\n        return y * torch.arange(4)\n    return inner(x)",
    "return torch.stack([torch.arange(4) for _ in range(2)]) + x",
    "m = torch.zeros(4, 4)\n    m[x > 0] = 1.0\n    return m",
    "a, b = *x.shape, x\n    return torch.ones(2, 2) * b",
    "return F.pad(x, (1, 1)) * TABLE",
    "return x + torch.tensor([1.0] * 4) * scale",
]
"""Ways in which a stray tensor of the host gets to one that follows the input."""


@pytest.mark.parametrize("body", MEETS)
def test_a_stray_is_followed_and_one_with_a_device_is_not_flagged(body):
    head = "{}def f(x: torch.Tensor, scale):\n    {}\n"
    table = "TABLE = torch.ones(4)\n\n\n"
    assert codes(head.format(table if "TABLE" in body else "", body)) == ["SD201"]
    if "TABLE" not in body:
        for name in ("ones(3", "zeros(3", "arange(4", "zeros(4, 4", "ones(2, 2", "tensor([1.0] * 4"):
            body = body.replace(f"torch.{name})", f"torch.{name}, device=x.device)")
        assert codes(head.format("", body)) == []


SILENT = [
    "t = torch.arange(4)\n    if x.is_cuda:\n        t = t.cuda(x.device)\n    return x + t",
    "def inner(y):\n        return torch.sin(y) + torch.ones(4)\n    return inner(torch.ones(4)).to(x) + x",
    "t, first = torch.zeros(1), True\n    for y in x:\n        if first:\n            t, first = y, False\n"
    "        else:\n            t = torch.cat([t, y])\n    return t",
    "t = torch.zeros(1)\n    if kind == 'a':\n        t = x\n    elif kind == 'b':\n        t = x * 2\n"
    "    return t + x",
    "m = torch.zeros(9)\n    for i in x:\n        m[i] = 1\n    return m",
    "m = torch.zeros(9)\n    m[idx] = 1\n    return m",
]


@pytest.mark.parametrize("body", SILENT)
def test_what_a_flag_a_word_or_a_call_decides_is_not_flagged(body):
    assert codes(f"def f(x: torch.Tensor, kind, idx: torch.Tensor):\n    {body}\n") == []


def test_what_only_constructors_call_or_is_given_from_the_host_is_not_flagged():
    rotary = """class P(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("table", self.made(torch.arange(9)))

    def made(self, steps: torch.Tensor):
        return torch.outer(steps, torch.arange(4))
"""
    assert codes(rotary) == []
    assert codes(
        rotary.replace("def made", "def other(self, x):\n        return self.made(x)\n\n    def made")
    ) == ["SD201"]
    loaded = """class P(nn.Module):
    def loader(self):
        return torch.utils.data.DataLoader(range(9), collate_fn=self._sample)

    def _sample(self, batch: torch.Tensor):
        return batch + torch.arange(4)
"""
    assert codes(loaded) == []
    assert codes(loaded.replace("self._sample)", "None)")) == ["SD201"]
    private = """def _scaled(x: torch.Tensor):
    return x * torch.arange(4)


def f(y: torch.Tensor):
    return _scaled({}).to(y.device)
"""
    assert codes(private.format("y.cpu()")) == []
    assert codes(private.format("y")) == ["SD201"]


def test_a_length_may_stay_on_the_host():
    head = "def f(x: torch.Tensor, lengths: torch.Tensor):\n"
    text = f"{head}    return torch.arange(9)[None, :] < lengths[:, None]\n"
    assert codes(text) == []


def test_tests_and_files_that_change_the_default_are_left_out():
    text = "def f(x: torch.Tensor):\n    return x + torch.arange(4)\n"
    assert codes(text, "test_model.py") == []
    assert codes(f"torch.set_default_device('cuda')\n{text}") == []


def test_a_helper_of_another_file_is_entered(tmp_path):
    (tmp_path / "__init__.py").write_text("")
    helper = "import torch\n\n\ndef steps(n, device=None):\n    return torch.arange(n, device=device)\n"
    (tmp_path / "steps.py").write_text(helper)
    used = (
        "from .steps import steps\n\n\ndef f(x: torch.Tensor):\n    return (steps(3, {}) + x).to(steps(3))\n"
    )
    for given, value in (("x.device", "same x"), ("", "default")):
        path = tmp_path / "model.py"
        source = parse_source(path, "import torch\n" + used.format(given))
        told = Reading(source, Project()).of(source.functions[0][0])
        meeting = told.meetings[0]
        assert str(meeting.operands[0][1].where) == value


def test_a_parameter_that_a_function_makes_is_one():
    text = """class P(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = self.made()

    @staticmethod
    def made():
        return nn.Parameter(torch.zeros(4))

    def forward(self, x: torch.Tensor):
        return x + self.table
"""
    assert codes(text) == []
    assert codes(text.replace("self.made()", "torch.zeros(4)")) == ["SD208"]


def test_a_shape_with_a_number_in_it_has_dimensions():
    text = "def f(x: torch.Tensor, n):\n    return x * torch.ones({})\n"
    assert codes(text.format("(1, *n)")) == ["SD201"]
    assert codes(text.format("[*n]")) == []


def test_an_object_that_is_no_module_keeps_its_tensors_where_they_were_made():
    text = """class Scorer:
    def __init__(self, thresholds=None):
        self.thresholds = {}

    def score(self, recall: torch.Tensor):
        return torch.searchsorted(recall, self.thresholds)
"""
    assert codes(text.format("torch.linspace(0, 1, 9)")) == ["SD208"]
    assert codes(text.format("None")) == []
    placeholder = (
        text.format("torch.zeros(0)") + "\n    def set(self, x):\n        self.thresholds = x.to(x)\n"
    )
    assert codes(placeholder) == []


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("left * right", ["SD222"]),
        ("left * right.to(left.device)", []),
        ("left[right.cpu() > 0]", []),
        ("right.cpu()[left > 0]", ["SD222"]),
        ("left * right.sum()", []),
        ("added(left, right)", ["SD222"]),
        ("added(left, left)", []),
    ],
)
def test_written_devices_that_meet(body, found):
    text = "def added(a, b):\n    return torch.cat([a, b])\n\n\nfirst = torch.device('cuda', 1)\n"
    text += "left = torch.ones(4, device=first)\nright = torch.ones(4).cuda()\n"
    assert codes(text + f"print({body})\n", "train.py") == found


def test_a_program_is_read_as_it_calls_its_functions():
    text = """class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(9, 4)

    def forward(self, ids):
        return self.table(ids)


device = "cuda" if torch.cuda.is_available() else "cpu"
net = Net().to(device)
print(net(torch.zeros(3, dtype=torch.long{})))
"""
    assert codes(text.format(", device=device"), "train.py") == []
    assert codes(text.format(""), "train.py") == ["SD201"]


BOX = """\
from dataclasses import dataclass


@dataclass
class Box:
    x: torch.Tensor
    y: int = 0


class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Linear(3, 3)

    def forward(self, h):
        h = self.l(h)
        box = Box(torch.zeros(3, 3))
        {line}
        return h + box.x
"""


@pytest.mark.parametrize(
    "line",
    [
        "box.x = box.x.to(h.device)",
        "keep = [box]\n        keep[0].x = box.x.to(h.device)",
        "keep = {'a': box}\n        keep['a'].x = h",
        "for each in (box,):\n            each.x = each.x.to(h.device)",
        "self.b = box\n        self.b.x = h",
        "setattr(box, 'x', h)",
        "vars(box)['x'] = h",
        "box.__dict__['x'] = h",
        "box.__dict__.update(x=h)",
        "other = box\n        other.x = h",
        "def put():\n            box.x = h\n        put()",
        "(put := lambda: setattr(box, 'x', h))()",
        "b2, n = box, 1\n        b2.x = h",
        "b2 = box if True else None\n        b2.x = h",
    ],
)
def test_an_attribute_of_a_dataclass_may_be_replaced_in_many_ways(line):
    assert codes(BOX.replace("{line}", line)) == []
    assert codes(BOX.replace("{line}", "pass")) == ["SD201"]


def test_what_others_write_into_syntax_trees_is_not_read():
    """`executing`, with which IPython shows errors, gives nodes a `parent`, also those that trees share."""
    text = "def f(x: torch.Tensor):\n    if not x and x < -1:\n        x += torch.arange(4)\n    return x\n"
    tree = ast.parse(text)
    shared = [node for node in ast.walk(tree) if not node._fields]
    for node in ast.walk(tree):
        for child in ast.iter_child_nodes(node):
            child.parent = node
    try:
        assert codes(text) == ["SD201"]
    finally:
        for node in shared:
            vars(node).clear()


@pytest.mark.parametrize(("base", "expected"), [("BasicTokenizer", []), ("BasicHead", ["SD201"])])
def test_classes_that_prepare_data_by_what_they_derive_from(base, expected):
    text = f"class Bins({base}):\n    def add(self, ids: torch.Tensor):\n        return ids + torch.ones(4)\n"
    assert codes(text) == expected


@pytest.mark.parametrize(("kind", "expected"), [("torch.Tensor", []), ("list", ["SD201"])])
def test_what_is_no_tensor_by_an_answer(kind, expected):
    text = (
        f"def f(z):\n    if isinstance(z, {kind}):\n        return z\n    else:\n"
        "        return torch.ones(4, 3) * z.contiguous()\n"
    )
    assert codes(text) == expected
