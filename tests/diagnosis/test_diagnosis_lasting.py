"""What outlives a statement is moved once, where it was decided; each change is applied, and the program then
runs clean and copies nothing again.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from test_diagnosis_fixes import apply

from samedevice.diagnosis import judge, united, with_results
from samedevice.machines import parse_machine
from samedevice.runtime import VirtualMachine

PROGRAMS = {
    "a constant of the script, beside one that names the device": (
        """\
import torch

DEV = torch.device("cuda:1")
PULL = torch.tensor([0.0, -1.0])

def force(x):
    return x + PULL

for _ in range(3):
    force(torch.ones(2, device=DEV))
""",
        ["PULL = torch.tensor([0.0, -1.0], device=DEV)"],
    ),
    "a part of a batch that a model is called with and reads twice": (
        """\
from collections import namedtuple

import torch
from torch import nn

Batch = namedtuple("Batch", "points empty")

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(2, 2)

    def forward(self, x, empty):
        h = self.lin(x)
        h = h.masked_fill(empty, 0.0)
        return self.last(h, empty)

    def last(self, h, empty):
        return torch.where(empty, h, h + 1)

def loaded():
    return Batch(torch.ones(4, 2), torch.zeros(4, 2, dtype=torch.bool))

def run(device):
    net = Net().to(device)
    for _ in range(3):
        batch = loaded()
        points = batch.points.to(device)
        net(points, batch.empty)

run("cuda:1")
""",
        ["        net(points, batch.empty.to(device))"],
    ),
    "a table that is kept by its size": (
        """\
import torch

_KEPT = {}

def window(size, device):
    key = (size, "hann")
    if key not in _KEPT:
        _KEPT[key] = torch.hann_window(size, device=device)
    return _KEPT[key]

def spectrum(x):
    return x * window(x.shape[-1], x.device)

for _ in range(2):
    for i in range(2):
        spectrum(torch.ones(8, device=f"cuda:{i}"))
""",
        ['    key = (size, "hann", device)'],
    ),
    "an attribute of the class": (
        """\
import torch
from torch import nn

class Causal(nn.Module):
    mask = torch.tril(torch.ones(8, 8))

    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(8, 8)

    def forward(self, x):
        return self.lin(x) * self.mask[:4, :]

model = Causal().to("cuda:1")
for _ in range(2):
    model(torch.ones(4, 8, device="cuda:1"))
""",
        ['        self.register_buffer("mask", torch.tril(torch.ones(8, 8)), persistent=False)'],
    ),
    "a gradient that a function of the script makes": (
        """\
import torch

class Step(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, width):
        ctx.save_for_backward(width)
        return (x > 0).to(x.dtype)

    @staticmethod
    def backward(ctx, gradient):
        (width,) = ctx.saved_tensors
        return gradient, torch.zeros(width.shape)

width = torch.ones(3, device="cuda:1", requires_grad=True)
for _ in range(2):
    x = torch.ones(3, device="cuda:1", requires_grad=True)
    Step.apply(x, width).sum().backward()
""",
        ["        return gradient, torch.zeros(width.shape, device=width.device)"],
    ),
    "a generator that a function makes for the tensor it is given": (
        """\
import torch

def drawn(values, seed):
    generator = torch.Generator()
    generator.manual_seed(seed)
    return values + torch.rand(values.shape, generator=generator, device=values.device)

for _ in range(2):
    drawn(torch.ones(4, device="cuda:1"), 0)
""",
        ["    generator = torch.Generator(device=values.device)"],
    ),
    "an attribute whose constructor keeps the device": (
        """\
import torch

class Loss:
    def __init__(self, device):
        self.weight = torch.ones(4)
        self.device = torch.device(device)

    def __call__(self, x):
        x = x.to(self.device)
        return (x * self.weight).sum()

loss = Loss("cuda:1")
for _ in range(3):
    loss(torch.ones(4))
""",
        ["        self.weight = torch.ones(4, device=device)"],
    ),
    "an attribute whose constructor knows no device": (
        """\
import torch

class Bias:
    def __init__(self, size):
        self.bias = torch.zeros(size)

    def __call__(self, scores):
        return scores + self.bias

bias = Bias(4)
for _ in range(3):
    bias(torch.ones(4, device="cuda:1"))
""",
        ["        self.bias = self.bias.to(scores.device)"],
    ),
    "tensors that an object keeps in a dictionary": (
        """\
import torch

class Cuts:
    def __init__(self):
        self.cuts = {"a": torch.tensor([0.5]), "b": torch.tensor([0.1, 0.7])}

    def __call__(self, row):
        for k, cut in self.cuts.items():
            torch.bucketize(row[k], cut)

cuts = Cuts()
for _ in range(3):
    cuts({"a": torch.rand(4, device="cuda:1"), "b": torch.rand(4, device="cuda:1")})
""",
        ["            self.cuts[k] = cut = cut.to(row[k].device)"],
    ),
    "a cached table of a function that may be asked for a device": (
        """\
import functools
import torch

@functools.lru_cache
def centres(n, device="cpu"):
    return torch.arange(n, device=device)

def head(x):
    centre = centres(x.size(0))
    return x + centre

for _ in range(3):
    head(torch.ones(4, device="cuda:1"))
""",
        ["    centre = centres(x.size(0), device=x.device)"],
    ),
    "a tensor that was sent away from where it has to be": (
        """\
import torch
from torch import nn

a = nn.Linear(2, 2).to("cuda:0")
b = nn.Linear(2, 2).to("cuda:1")
first = torch.ones(2, device="cuda:0")
with torch.no_grad():
    goal = b(first.to("cuda:1")).to("cuda:0")

for _ in range(3):
    b(first.to("cuda:1")) - goal
""",
        ['    goal = b(first.to("cuda:1"))'],
    ),
    "an item of a batch that was not sent along": (
        """\
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.score = nn.Linear(4, 1)

    def forward(self, x, mask):
        s = self.score(x).squeeze(-1)
        return s.masked_fill(mask, 0.0)


def collate(n):
    return {"x": torch.ones(n, 4), "mask": torch.ones(n) > 2}

net = Net().to("cuda:1")
batch = collate(3)
batch["x"] = batch["x"].to("cuda:1")
for _ in range(3):
    net(batch["x"], batch["mask"])
""",
        ['batch["mask"] = batch["mask"].to(next(net.parameters()).device)'],
    ),
    "weights that took the place of others": (
        """\
import torch
from torch import nn

def resume(model):
    kept = torch.load(FILE, map_location="cpu")
    model.load_state_dict(kept, assign=True)
    return model

torch.save(nn.Linear(4, 4).state_dict(), FILE)
model = resume(nn.Linear(4, 4).to("cuda:1"))
for _ in range(3):
    model(torch.ones(2, 4, device="cuda:1"))
""",
        ["    kept = torch.load(FILE, map_location=next(model.parameters()).device)"],
    ),
    "modules that a base class keeps in a list": (
        """\
import torch
from torch import nn

class Dense(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.grow = []
        for _ in range(2):
            self.grow.append(nn.Linear(4, 4))

    def forward(self, x):
        x = self.first(x)
        for each in self.grow:
            x = each(x)
        return x

class Net(Dense):
    pass

net = Net().to("cuda:1")
for _ in range(3):
    net(torch.ones(2, 4, device="cuda:1"))
""",
        ["        self.grow = nn.ModuleList()"],
    ),
    "a literal GPU in a function of a replica": (
        """\
import torch

def normalise(x):
    mean = torch.tensor([0.5]).to("cuda:0")
    return x - mean

for _ in range(2):
    normalise(torch.ones(4, device="cuda:1"))
""",
        ["    mean = torch.tensor([0.5]).to(x.device)"],
    ),
    "what comes with a call follows what an object keeps": (
        """\
import torch

class Index:
    def __init__(self, rows, device):
        self.rows = rows.to(device)

    def search(self, query):
        return query @ self.rows.T

index = Index(torch.ones(3, 4), "cuda:1")
for _ in range(3):
    index.search(torch.ones(2, 4, device="cuda:0"))
""",
        ["        return query.to(self.rows.device) @ self.rows.T"],
    ),
    "a helper without `.to()`, whose constructor makes what each call reads": (
        """\
import torch

class Wander:
    def __init__(self, size, pull=0.15):
        self.size, self.pull = size, pull
        self.goal = torch.zeros(size)

    def step(self, x):
        return x + self.pull * (self.goal - x)

def walk(start):
    wander = Wander(start.shape[0])
    for _ in range(3):
        start = wander.step(start)
    return start

walk(torch.ones(4, device="cuda:1"))
""",
        [
            "    def __init__(self, size, pull=0.15, device=None):",
            "        self.goal = torch.zeros(size, device=device)",
            "    wander = Wander(start.shape[0], device=start.device)",
        ],
    ),
    "a function whose results are cached": (
        """\
import functools

import torch

@functools.cache
def ramp(n):
    up = torch.arange(n).float()
    return torch.cat([up, torch.zeros(1)])

def weighed(x):
    y = x * 2
    return y * ramp(x.shape[0] - 1)

for card in ("cuda:0", "cuda:1"):
    weighed(torch.ones(4, device=card))
""",
        [
            "def ramp(n, device=None):",
            "    up = torch.arange(n, device=device).float()",
            "    return torch.cat([up, torch.zeros(1, device=device)])",
            "    return y * ramp(x.shape[0] - 1, device=y.device)",
        ],
    ),
    "a generator that a helper keeps": (
        """\
import torch

class Drop:
    def __init__(self, rate, seed=0):
        self.rate = rate
        self.dice = torch.Generator().manual_seed(seed)

    def __call__(self, x):
        keep = torch.empty_like(x).bernoulli_(1 - self.rate, generator=self.dice)
        return x * keep

def run(device):
    drop = Drop(0.5)
    x = torch.ones(8, device=device)
    for _ in range(2):
        x = drop(x)

run("cuda:0")
""",
        [
            "    def __init__(self, rate, seed=0, device=None):",
            "        self.dice = torch.Generator(device=device).manual_seed(seed)",
            "    drop = Drop(0.5, device=device)",
        ],
    ),
    "what every layer of a stage reads, beside what is sent from stage to stage": (
        """\
import torch
from torch import nn

class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)

    def forward(self, h, scale):
        return self.lin(h) * scale

stages = []
for card in ("cuda:0", "cuda:1"):
    stages.append((torch.device(card), nn.ModuleList([Gate(), Gate()]).to(card)))

def flow(h, scale):
    for card, gates in stages:
        h = h.to(card)
        for gate in gates:
            h = gate(h, scale)
    return h

flow(torch.ones(2, 4, device="cuda:0"), torch.ones(4, device="cuda:0"))
""",
        ["        scale = scale.to(card)"],
    ),
    "items of what an object keeps, written in place": (
        """\
import torch

class Moments:
    def __init__(self, first):
        self.kept = first

    def add(self, grads):
        for name, grad in grads.items():
            self.kept[name].mul_(0.9).add_(grad, alpha=0.1)

moments = Moments({"a": torch.zeros(3), "b": torch.zeros(2)})
for _ in range(3):
    moments.add({"a": torch.ones(3, device="cuda:0"), "b": torch.ones(2, device="cuda:0")})
""",
        ["            self.kept[name] = self.kept[name].to(grad.device)"],
    ),
    "a list of an object beside another one": (
        """\
import torch

class Polyak:
    def __init__(self, averages):
        self.averages = averages

    def follow(self, values):
        for value, average in zip(values, self.averages):
            average.lerp_(value, 0.1)

polyak = Polyak([torch.zeros(3), torch.zeros(2)])
values = [torch.ones(3, device="cuda:0"), torch.ones(2, device="cuda:0")]
for _ in range(3):
    polyak.follow(values)
""",
        [
            "        self.averages = [average.to(value.device) "
            "for value, average in zip(values, self.averages)]",
        ],
    ),
    "a copy of a model that a constructor makes before it moves the model": (
        """\
import torch
from torch import nn

class Copy:
    def __init__(self, net):
        self.values = {name: each.detach().clone() for name, each in net.named_parameters()}

    @torch.no_grad()
    def follow(self, net):
        for name, each in net.named_parameters():
            self.values[name].add_(each - self.values[name], alpha=0.1)

class Run:
    def __init__(self, card):
        self.net = nn.Linear(3, 3)
        self.copy = Copy(self.net)
        self.card = torch.device(card)
        self.net.to(self.card)

    def step(self):
        self.net(torch.ones(1, 3, device=self.card)).sum().backward()
        self.copy.follow(self.net)

run = Run("cuda:0")
for _ in range(2):
    run.step()
""",
        ["        self.copy = Copy(self.net)"],
    ),
    "what a maker gives its new module": (
        """\
import torch
from torch import nn

class Scaled(nn.Module):
    def __init__(self, lin):
        super().__init__()
        self.lin = lin
        self.size = None

    def forward(self, x):
        return self.lin(x * self.size)

def scaled(lin):
    made = Scaled(lin)
    made.size = lin.weight.detach().abs().amax(0)
    return made

model = nn.Sequential(scaled(nn.Linear(4, 4)), scaled(nn.Linear(4, 4))).to("cuda:1")
for _ in range(2):
    model(torch.ones(2, 4, device="cuda:1"))
""",
        ['        self.register_buffer("size", None, persistent=False)'],
    ),
    "several tensors of one file": (
        """\
import torch

torch.save({"low": torch.zeros(3), "high": torch.ones(3)}, FILE)

class Bounds:
    def __init__(self, card):
        self.card = torch.device(card)
        self.known = torch.load(FILE, map_location="cpu")

    def into(self, x, name):
        bound = self.known[name].unsqueeze(0)
        return x.to(self.card) - bound

bounds = Bounds("cuda:1")
for name in ("low", "high"):
    bounds.into(torch.ones(2, 3), name)
""",
        ["        self.known = torch.load(FILE, map_location=self.card)"],
    ),
    "what a function made before the loop that reads it": (
        """\
import torch

towers = {"text": torch.nn.Linear(4, 4).to("cuda:1"), "image": torch.nn.Linear(4, 4).to("cuda:0")}

def search(images):
    with torch.no_grad():
        labels = towers["text"](torch.ones(5, 4, device="cuda:1"))
        best = []
        for image in images:
            found = towers["image"](image)
            best.append((found @ labels.T).argmax(1))
    return best

search([torch.ones(2, 4, device="cuda:0") for _ in range(3)])
""",
        ["            labels = labels.to(found.device)"],
    ),
    "a weight that is used once more, on another GPU": (
        """\
import torch
from torch import nn
from torch.nn import functional as F

class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(7, 4).to("cuda:0")
        self.body = nn.Linear(4, 4).to("cuda:1")
        self.norm = nn.LayerNorm(4).to("cuda:1")

    def forward(self, ids):
        h = torch.tanh(self.body(self.words(ids).to("cuda:1")))
        return F.linear(self.norm(h), self.words.weight)

Shared()(torch.zeros(2, dtype=torch.long, device="cuda:0"))
""",
        ["        return F.linear(self.norm(h).to(self.words.weight.device), self.words.weight)"],
    ),
}


def ran(path):
    with VirtualMachine(parse_machine("2x24GB"), on_mismatch="record") as machine:
        with machine.counted_copies() as copies:
            exec(compile(path.read_text("utf-8"), str(path), "exec"), {"__name__": "__main__"})
            counted = copies()
    events = with_results(machine.events)
    return united([judge(event) for event in events]), counted


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_first_fix_alone_is_the_repair(name, tmp_path):
    source, added = PROGRAMS[name]
    path = tmp_path / "script.py"
    path.write_text(source.replace("FILE", repr(str(tmp_path / "kept.pt"))), "utf-8")
    findings, before = ran(path)
    fix = findings[0].fixes[0]
    assert fix.safety == "safe"
    lines = [line[1:] for line in fix.diff.splitlines() if line.startswith("+") and line[:3] != "+++"]
    assert [line.replace(repr(str(tmp_path / "kept.pt")), "FILE") for line in lines] == added
    repaired = tmp_path / "repaired.py"
    repaired.write_text(apply(fix.diff, path.read_text("utf-8")), "utf-8")
    found, after = ran(repaired)
    assert found == []
    assert after.again <= before.again


TWO_TOWERS = """\
import torch
from torch import nn

vision, text, trunk = (nn.Linear(4, 4).to(d) for d in ("cuda:1", "cuda:0", "cuda:0"))


def run(image, ids):
    patches, words = vision(image), text(ids)
    joined = torch.cat([patches, words])
    return trunk(joined)


run(torch.ones(2, 4, device="cuda:1"), torch.ones(2, 4, device="cuda:0"))
"""


def test_the_operand_follows_that_is_not_where_the_result_is_needed(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(TWO_TOWERS, "utf-8")
    findings, _ = ran(path)
    first = findings[0]
    assert next(each for each in first.operands if each.name == first.guilty).local == "patches"
    assert "torch.cat([patches.to(words.device), words])" in first.fixes[0].diff
    repaired = tmp_path / "repaired.py"
    repaired.write_text(apply(first.fixes[0].diff, TWO_TOWERS), "utf-8")
    assert ran(repaired)[0] == []


LOADER = """\
import torch

device = torch.device("cuda:1")


def split(n):
    return torch.utils.data.TensorDataset(torch.rand(n, 4))


loader = torch.utils.data.DataLoader(split(8), batch_size=4)
net = torch.nn.Linear(4, 4).to(device)
for (x,) in loader:
    net(x)
"""


def test_the_data_of_a_loader_stay_on_the_host(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(LOADER, "utf-8")
    (finding,), _ = ran(path)
    assert "torch.rand(n, 4, device" not in finding.fixes[0].diff


MAIN_ONLY = """\
import torch


class Table:
    def __init__(self):
        self.table = torch.ones(4)

    def __call__(self, x):
        return x * self.table


if __name__ == "__main__":
    device = torch.device("cuda:1")
    table = Table()
    for _ in range(3):
        table(torch.ones(4, device=device))
"""


def test_no_name_is_used_that_only_the_program_has(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(MAIN_ONLY, "utf-8")
    findings, _ = ran(path)
    first = findings[0].fixes[0].diff
    assert "device=None):" in first
    assert "    table = Table(device=device)" in first  # in the program's own part, which has the name


KEPT = """\
import torch

TABLES = {}


def table(length, device):
    if length not in TABLES:
        TABLES[length] = torch.arange(length, device=device).float()
    return TABLES[length]


def turned(x):
    steps = table(x.size(0), x.device)
    return x * steps


for device in ("cuda:0", "cuda:1"):
    turned(torch.ones(4, device=device))
"""


def test_a_call_that_asks_for_the_right_device_already_is_not_changed(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(KEPT, "utf-8")
    (finding,), _ = ran(path)
    first = finding.fixes[0].diff
    assert not any(line.startswith("-") and "steps = table(" in line for line in first.splitlines())
    repaired = tmp_path / "repaired.py"
    repaired.write_text(apply(first, KEPT), "utf-8")
    assert ran(repaired)[0] == []


STORE = """\
import torch

DEVICE = "cuda:1"

class Layer:
    keys = None

    def update(self, new):
        if self.keys is None:
            self.dtype, self.device = new.dtype, new.device
            self.keys = torch.tensor([], dtype=self.dtype, device=self.device)
        self.keys = torch.cat([self.keys, new])
        return self.keys

class Server:
    def __init__(self):
        self.memory = {}

    def allocate(self, handle, length):
        self.memory[handle] = torch.zeros(length)

layer, server = Layer(), Server()
server.allocate("session", 4)
layer.update(server.memory["session"][:0])
for _ in range(3):
    layer.update(torch.ones(2, device=DEVICE))
"""


def test_what_took_its_device_from_memory_that_nobody_placed_is_mended_there(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(STORE, "utf-8")
    (finding,), _ = ran(path)
    line = "+        self.memory[handle] = torch.zeros(length, device=DEVICE)\n"
    (fix,) = [each for each in finding.fixes if line in (each.diff or "")]
    assert fix.safety == "check"  # who else reads the memory is not known
    repaired = tmp_path / "repaired.py"
    repaired.write_text(apply(fix.diff, STORE), "utf-8")
    assert ran(repaired)[0] == []


@pytest.mark.parametrize(
    "made", ["torch.rand(length)", "nn.Parameter(torch.zeros(length))", "torch.randperm(length).float()"]
)
def test_nothing_is_mended_there_that_is_drawn_or_belongs_to_a_module(made, tmp_path):
    path = tmp_path / "script.py"
    path.write_text(
        STORE.replace("torch.zeros(length)", made).replace(
            "import torch\n", "import torch\nfrom torch import nn\n"
        ),
        "utf-8",
    )
    findings, _ = ran(path)
    assert not any("self.memory[handle]" in (fix.diff or "") for fix in findings[0].fixes)


MODEL = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 4)
        self.seen = torch.tril(torch.ones(4, 4))

    def forward(self, x):
        return self.lin(x).masked_fill(self.seen == 0, 0.0)
"""
RUN = """\
import sys

sys.path.insert(0, ROOT)
import torch
from made_model import Net

net = Net().to("cuda:0")
for _ in range(3):
    net(torch.ones(4, 4, device="cuda:0"))
"""


@pytest.mark.parametrize("project", [True, False])
def test_another_file_of_the_project_is_changed_as_the_script_is(project, tmp_path):
    (tmp_path / "made_model.py").write_text(MODEL, "utf-8")
    (tmp_path / "jobs").mkdir()
    if project:
        (tmp_path / "setup.py").touch()
    path, document = tmp_path / "jobs" / "script.py", tmp_path / "found.json"
    path.write_text(RUN.replace("ROOT", repr(str(tmp_path))), "utf-8")
    words = ["run", "--machine", "2x24GB", "--json", str(document), str(path)]
    subprocess.run(
        [sys.executable, "-m", "samedevice", *words], check=False, capture_output=True, timeout=120
    )
    (finding,) = json.loads(document.read_text("utf-8"))["findings"]
    first = finding["fixes"][0]
    if project:
        assert first["safety"] == "safe"
        assert 'self.register_buffer("seen", ' in first["diff"]
        assert first["file"] == str(tmp_path / "made_model.py")
    else:
        assert first["safety"] == "check"
