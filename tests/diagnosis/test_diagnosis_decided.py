"""The first fix follows the odd decision: the helper, the constructor or the script's own move.

Each change is applied, and the program then runs clean.
"""

from __future__ import annotations

import pytest
from test_diagnosis_fixes import apply
from test_diagnosis_lasting import ran

from samedevice.diagnosis import explain_text, unwrapped

PROGRAMS = {
    "a helper with one caller": (
        """\
import torch

def offsets(n):
    grid = torch.stack(torch.meshgrid(torch.arange(n), torch.arange(n), indexing="ij"))
    return grid.sum(0)

def scored(x):
    table = offsets(2)
    return x * table

scored(torch.ones(2, 2, device="cuda:1"))
""",
        [
            "def offsets(n, device=None):",
            "    grid = torch.stack(torch.meshgrid(torch.arange(n, device=device), "
            'torch.arange(n, device=device), indexing="ij"))',
            "    table = offsets(2, device=x.device)",
        ],
    ),
    "a method of a model": (
        """\
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(2, 2)

    def places(self, n):
        y, x = torch.meshgrid(torch.arange(n), torch.arange(n), indexing="ij")
        return torch.stack([x, y]).sum(0)

    def forward(self, x):
        out = self.body(x)
        return out + self.places(out.shape[-1])

Net().to("cuda:1")(torch.ones(2, 2, device="cuda:1"))
""",
        [
            "    def places(self, n, device=None):",
            "        y, x = torch.meshgrid(torch.arange(n, device=device), "
            'torch.arange(n, device=device), indexing="ij")',
            "        return out + self.places(out.shape[-1], device=out.device)",
        ],
    ),
    "state that a method renews, in a class that knows no device": (
        """\
import torch

class Tally:
    def __init__(self, n):
        self.n = n
        self.reset()

    def reset(self):
        self.seen = torch.zeros(self.n)

    def update(self, x):
        self.seen += x

device = torch.device("cuda:1")
tally = Tally(2)
for _ in range(2):
    tally.update(torch.ones(2, device=device))
""",
        [
            "    def __init__(self, n, device=None):",
            "        self.device = device",
            "        self.seen = torch.zeros(self.n, device=self.device)",
            "tally = Tally(2, device=device)",
        ],
    ),
    "a move whose result nobody keeps": (
        """\
import torch

net = torch.nn.Linear(2, 2).to("cuda:1")
for _ in range(2):
    x = torch.ones(3, 2)
    x.to("cuda:1")
    net(x)
""",
        ['    x = x.to("cuda:1")'],
    ),
    "a second name, given before the move": (
        """\
import torch

def grown(x, device):
    start = x
    x = x.to(device)
    more = x * 2
    return torch.cat([start, more])

grown(torch.ones(2), "cuda:1")
""",
        ["    x = x.to(device)"],
    ),
    "a part of what a function gives back, beside parts that it sends on": (
        """\
import torch

def prepared(batch, device):
    return batch["x"].to(device), batch["mask"]

device = torch.device("cuda:1")
for _ in range(2):
    x, mask = prepared({"x": torch.ones(2), "mask": torch.ones(2)}, device)
    x * mask
""",
        ['    return batch["x"].to(device), batch["mask"].to(device)'],
    ),
    "a tensor that is sent on inside an expression": (
        """\
import torch
from torch import nn

class Mixer(nn.Module):
    def __init__(self, where):
        super().__init__()
        self.where = where
        self.ff = nn.Linear(2, 2).to(where)

    def forward(self, x):
        y = self.ff(x.to(self.where))
        return x + y

Mixer("cuda:1")(torch.ones(3, 2, device="cuda:0"))
""",
        ["        x = x.to(self.where)", "        y = self.ff(x)"],
    ),
    "rows of a table on the host": (
        """\
import torch

def batches(table, device):
    for rows in torch.arange(4, device=device).split(2):
        yield table[rows].to(device)

for x in batches(torch.ones(4, 2), torch.device("cuda:1")):
    x + 1
""",
        ["        yield table[rows.to(table.device)].to(device)"],
    ),
    "a model that a function makes": (
        """\
import torch

def build():
    return torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())

gpu = torch.device("cuda:1")
net = build().eval()
net(torch.ones(3, 2).to(gpu))
""",
        ["net = build().eval().to(gpu)"],
    ),
    "a literal that a method was asked for": (
        """\
import torch

class Batch:
    def __init__(self, x):
        self.x = x

    def to(self, device):
        return Batch(self.x.to(device))

def run(where):
    net = torch.nn.Linear(2, 2).to(where)
    for _ in range(2):
        batch = Batch(torch.ones(3, 2)).to("cuda:0")
        net(batch.x)

run("cuda:1")
""",
        ["        batch = Batch(torch.ones(3, 2)).to(where)"],
    ),
    "a sum of what is made and a number": (
        """\
import torch

def shifted(x, start):
    rows = torch.arange(2) + start
    return x.index_select(0, rows)

shifted(torch.ones(4, device="cuda:1"), 1)
""",
        ["    rows = torch.arange(2, device=x.device) + start"],
    ),
    "a copy of a model, made before it moves": (
        """\
import copy
import torch

class Average:
    def __init__(self, model):
        self.shadow = copy.deepcopy(model)

    @torch.no_grad()
    def update(self, model):
        for mean, now in zip(self.shadow.parameters(), model.parameters()):
            mean.mul_(0.9).add_(now, alpha=0.1)

net = torch.nn.Linear(2, 2)
average = Average(net)
net = net.to("cuda:1")
for _ in range(2):
    average.update(net)
""",
        ['net = net.to("cuda:1")'],
    ),
    "a copy that the failing function made": (
        """\
import copy
import torch

net = torch.nn.Linear(2, 2)
slow = copy.deepcopy(net)
net.to("cuda:1")
for _ in range(2):
    with torch.no_grad():
        for kept, now in zip(slow.parameters(), net.parameters()):
            kept.mul_(0.9).add_(now, alpha=0.1)
""",
        ['net.to("cuda:1")'],
    ),
    "a generator among several": (
        """\
import torch

def noise(shape, device, seed):
    other = torch.Generator().manual_seed(1)
    rng = torch.Generator().manual_seed(seed)
    out = torch.empty(shape, device=device)
    return out.normal_(generator=rng), torch.rand(2, generator=other)

noise((2, 2), torch.device("cuda:1"), 3)
""",
        ["    rng = torch.Generator(device=device).manual_seed(seed)"],
    ),
    "a generator that a module keeps": (
        """\
import torch
from torch import nn

class Dropout(nn.Module):
    def __init__(self, seed):
        super().__init__()
        self.rng = torch.Generator().manual_seed(seed)

    def forward(self, x):
        return x * torch.empty_like(x).bernoulli_(0.5, generator=self.rng)

Dropout(3)(torch.ones(2, device="cuda:1"))
""",
        [
            "        return x * torch.empty_like(x, device=self.rng.device)"
            ".bernoulli_(0.5, generator=self.rng).to(x.device)"
        ],
    ),
    "a split on a default device": (
        """\
import torch
from torch.utils.data import TensorDataset, random_split

torch.set_default_device("cuda")
random_split(TensorDataset(torch.ones(4)), [2, 2])
torch.set_default_device(None)
""",
        [
            "random_split(TensorDataset(torch.ones(4)), [2, 2], "
            "generator=torch.Generator(device=torch.get_default_device()))"
        ],
    ),
}


def _added(fix):
    return [line[1:] for line in fix.diff.splitlines() if line.startswith("+") and line[:3] != "+++"]


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_first_fix_alone_is_the_repair(name, tmp_path):
    source, added = PROGRAMS[name]
    path = tmp_path / "script.py"
    path.write_text(source, "utf-8")
    findings, _ = ran(path)
    fix = findings[0].fixes[0]
    assert fix.safety == "safe"
    assert _added(fix) == added
    repaired = tmp_path / "repaired.py"
    repaired.write_text(apply(fix.diff, source), "utf-8")
    assert ran(repaired)[0] == []


KEPT = {
    "a helper that is given a tensor of the host": (
        """\
import torch

def shifted(x):
    return x + torch.arange(2)

def met(x, y):
    z = shifted(y)
    return x * z

met(torch.ones(2, device="cuda:1"), torch.ones(2))
""",
        "def shifted(x, device",
    ),
    "a helper with two callers": (
        """\
import torch

def table(n):
    return torch.arange(n)

def met(x):
    z = table(2)
    return x * z

met(torch.ones(2, device="cuda:1"))
print(table(3).tolist())
""",
        "def table(n, device",
    ),
    "a tensor that another statement wants where it is": (
        """\
import torch

def met(x, device):
    y = torch.relu(x.to(device))
    z = x + y
    return z, x.device

met(torch.ones(2), "cuda:1")
""",
        "    x = x.to(device)",
    ),
    "a variable of the script, in a function that knew nothing of it": (
        """\
import torch

def table(n):
    line = torch.arange(n)
    return line[:, None] * line[None]

def met(x):
    z = table(2)
    for _ in range(2):
        x = x * z
    return x

device = torch.device("cuda:1")
met(torch.ones(2, 2, device=device))
""",
        "(device)",
    ),
}


@pytest.mark.parametrize("name", KEPT)
def test_what_others_rely_on_is_kept(name, tmp_path):
    source, never = KEPT[name]
    path = tmp_path / "script.py"
    path.write_text(source, "utf-8")
    findings, _ = ran(path)
    assert not any(never in (fix.diff or "") for finding in findings for fix in finding.fixes[:1])


TRACE = """\
Traceback (most recent call last):
  File "{file}", line {line}, in <module>
    net(x)
  File "/site-packages/torch/nn/parallel/data_parallel.py", line 180, in forward
    raise RuntimeError(
RuntimeError: module must have its parameters and buffers on device cuda:0 (device_ids[0]) but found one of \
them on device: cuda:1
"""
WRAPPED = "from torch import nn\n\nmodel = parts()\nnet = {made}\nnet(x)\n"


@pytest.mark.parametrize(
    ("made", "added"),
    [
        ("nn.DataParallel(model)", ["net = model"]),
        ("nn.DataParallel(model) if many else model", ["net = model"]),
        ("nn.DataParallel(model) if many else other", ["net = model if many else other"]),
        ("nn.DataParallel(model).module", None),
        ("nn.DataParallel(nn.DataParallel(model))", None),
    ],
)
def test_a_wrapper_that_refuses_its_model_is_taken_off(made, added, tmp_path):
    path = tmp_path / "script.py"
    path.write_text(WRAPPED.format(made=made), "utf-8")
    (finding,) = explain_text(TRACE.format(file=path, line=5))
    fixes = [fix for fix in unwrapped(finding).fixes if fix.diff]
    assert [_added(fix) for fix in fixes] == ([added] if added else [])
