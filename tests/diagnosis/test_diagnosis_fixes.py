"""Fixes: each diff is applied to its script, and the repaired script runs clean on the virtual machine."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import samedevice as sd
from samedevice.diagnosis import explain_text, judge, with_map_entry
from samedevice.diagnosis._failure import Failure
from samedevice.diagnosis.fixes import Script
from samedevice.diagnosis.fixes._releases import releases
from samedevice.diagnosis.fixes._script import _chosen
from samedevice.events import Event, EventKind, Place
from samedevice.machines import parse_machine
from samedevice.runtime import VirtualMachine

ROOT = Path(__file__).parents[2]
MODEL = """\
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(16, 8)
        self.head = torch.nn.Linear(8, 16)

    def forward(self, ids):
        return self.head(self.embed(ids))

"""
SCRIPTS = {
    "inputs sent to a fixed device": (
        "input-not-on-embedding-device",
        MODEL + 'model = Model().to("cuda:1")\nids = torch.tensor([[1, 2]]).to("cuda:0")\nmodel(ids)\n',
    ),
    "inputs by cuda()": (
        "input-not-on-embedding-device",
        MODEL + 'model = Model().to("cuda:1")\nids = torch.tensor([[1, 2]]).cuda()\nmodel(ids)\n',
    ),
    "inputs made before the model": (
        "input-not-on-embedding-device",
        MODEL + 'ids = torch.tensor([[1, 2]])\nmodel = Model().to("cuda:1")\nmodel(ids)\n',
    ),
    "inputs never moved": (
        "input-not-on-embedding-device",
        MODEL + 'model = Model().to("cuda:1")\nids = torch.tensor(\n    [[1, 2]],\n)\nmodel(ids)\n',
    ),
    "inputs of a module around a model of transformers": (
        "input-not-on-embedding-device",
        "import torch\nfrom transformers import LlamaConfig, LlamaForCausalLM\n\n"
        "class Wrapper(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.base = LlamaForCausalLM(LlamaConfig(hidden_size=8, intermediate_size=8, "
        "num_hidden_layers=1, num_attention_heads=1,"
        " vocab_size=16))\n\n    def forward(self, ids):\n        return self.base(input_ids=ids).logits\n\n"
        'model = Wrapper().to("cuda:1")\nmodel(torch.tensor([[1, 2]]).to("cuda:0"))\n',
    ),
    "labels on the host": (
        "loss-or-label-on-other-device",
        MODEL + 'model = Model().to("cuda:0")\nids = torch.tensor([1, 2], device="cuda:0")\nlabels = '
        "torch.tensor([3, 4])\n"
        + "logits = model(ids)\nloss = torch.nn.functional.cross_entropy(logits, labels)\nloss.backward()\n",
    ),
    "labels on another GPU": (
        "loss-or-label-on-other-device",
        MODEL + 'model = Model().to("cuda:1")\nids = torch.tensor([1, 2], device="cuda:1")\nlabels = '
        'torch.tensor([3, 4]).to("cuda:0")\n'
        + "criterion = torch.nn.CrossEntropyLoss()\ncriterion(model(ids), labels)\n",
    ),
    "a helper without device": (
        "tensor-created-on-wrong-device",
        'import torch\nx = torch.ones(4, device="cuda:0")\nscale = torch.linspace(0.0, 1.0, 4)\ny = x * '
        "scale\n",
    ),
    "a plain attribute that the module leaves behind": (
        "tensor-created-on-wrong-device",
        MODEL.replace("16, 8)", "16, 8)\n        self.scale = torch.ones(8)").replace(
            "self.embed(ids)", "self.embed(ids) * self.scale"
        )
        + 'model = Model().to("cuda:1")\nmodel(torch.tensor([[1, 2]], device="cuda:1"))\n',
    ),
    "a plain attribute of a module that places its parts": (
        "tensor-created-on-wrong-device",
        MODEL.replace("16, 8)", '16, 8, device="cuda:0")\n        self.scale = torch.ones(8)')
        .replace("self.embed(ids)", "self.embed(ids) * self.scale")
        .replace("(8, 16)", '(8, 16, device="cuda:0")')
        + 'Model()(torch.tensor([[1, 2]], device="cuda:0"))\n',
    ),
    "split by hand": (
        "block-split-across-devices",
        MODEL.replace(
            "return self.head(self.embed(ids))", "hidden = self.embed(ids)\n        return self.head(hidden)"
        )
        + 'model = Model()\nmodel.embed.to("cuda:0")\nmodel.head.to("cuda:1")\nmodel(torch.tensor([[1, '
        '2]], device="cuda:0"))\n',
    ),
    "generator": (
        "generator-or-default-device",
        'import torch\ngenerator = torch.Generator().manual_seed(0)\ntorch.randn(2, device="cuda:0", '
        "generator=generator)\n",
    ),
    "model never moved": (
        "module-left-on-other-device",
        MODEL + 'model = Model()\nids = torch.tensor([[1, 2]]).to("cuda:0")\nmodel(ids)\n',
    ),
    "map_location": (
        "checkpoint-map-location",
        'import torch\ntorch.save(torch.ones(4, device="cuda:1"), FILE)\nx = torch.ones(4, device="cuda:0")\n'
        "kept = torch.load(FILE)\ny = x + kept\n",
    ),
    "one mistake in several statements": (
        "tensor-created-on-wrong-device",
        "import torch\n\ndef f(x, scale):\n    y = x * scale\n    z = x - 1\n    return y + z / scale\n\n"
        'f(torch.ones(4, device="cuda:1"), torch.linspace(1.0, 2.0, 4))\n',
    ),
    "one mistake in several expressions of a statement": (
        "tensor-created-on-wrong-device",
        "import torch\n\ndef turn(x):\n    return torch.cat([-x[..., 2:], x[..., :2]], -1)\n\n"
        "def rotate(q, cos, sin):\n    return q * cos + turn(q) * sin\n\nangle = torch.arange(4.0)\n"
        'rotate(torch.ones(2, 4, device="cuda:1"), angle.cos(), angle.sin())\n',
    ),
    "two operands of one call in one line": (
        "cache-or-beam-state-on-wrong-device",
        "import torch\n\ndef attend(q, past):\n    keys, values = past\n"
        "    return (q @ keys.transpose(-1, -2)).softmax(-1) @ values\n\n"
        'past = torch.ones(1, 3, 4, device="cuda:0"), torch.ones(1, 3, 4, device="cuda:0")\n'
        'attend(torch.ones(1, 1, 4, device="cuda:1"), past)\n',
    ),
    "a module whose weights nobody placed": (
        "module-left-on-other-device",
        "import torch\n\nclass Weigh(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.scale = torch.nn.Parameter(torch.zeros(4))\n\n    def forward(self, x):\n"
        "        return (torch.exp(self.scale) * x).sum()\n\n"
        'device = "cuda:1"\nnet = torch.nn.Linear(4, 4).to(device)\nweigh = Weigh()\n'
        "weigh(net(torch.ones(2, 4, device=device)))\n",
    ),
    "two values of one checkpoint in one statement": (
        "checkpoint-map-location",
        "import torch\n\ndef scale(x, center, spread):\n"
        "    return (x - center) / spread.clamp_min(0.1)\n\n"
        'torch.save({"center": torch.ones(4), "spread": torch.ones(4)}, FILE)\n'
        'kept = torch.load(FILE, map_location="cpu")\n'
        'scale(torch.ones(2, 4, device="cuda:1"), kept["center"], kept["spread"])\n',
    ),
    "sums that an object keeps and computes with": (
        "metric-state-device",
        "import torch\n\nclass Norm:\n    def __init__(self):\n        self.total = torch.zeros(4)\n"
        "        self.square = torch.ones(4) * 0.1\n\n    def see(self, x):\n        self.total += x.sum(0)\n"
        "        self.square += (x ** 2).sum(0)\n\n    def scale(self, x):\n        mean = self.total / 2\n"
        "        var = self.square / 2 - mean ** 2\n        return (x - mean) / var.sqrt()\n\n"
        'device = torch.device("cuda:1")\nnorm = Norm()\nx = torch.ones(2, 4, device=device)\n'
        "norm.see(x)\nnorm.scale(x)\n",
    ),
    "a weight made from another module's weight": (
        "module-left-on-other-device",
        "import torch\nfrom torch import nn\n\nclass Prompt(nn.Module):\n    def __init__(self, table):\n"
        "        super().__init__()\n        start = table.weight[:2].detach().cpu().clone()\n"
        "        self.prompt = nn.Parameter(start + 0.1)\n\n    def forward(self, x):\n"
        "        return torch.cat([self.prompt, x])\n\n"
        'device = "cuda:1"\ntable = nn.Embedding(8, 4).to(device)\nprompt = Prompt(table)\n'
        "prompt(table(torch.tensor([1, 2], device=device)))\n",
    ),
    "a module that an object keeps which is none": (
        "module-left-on-other-device",
        "import torch\n\nclass Features(torch.nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.net = torch.nn.Linear(4, 4)\n\n    def forward(self, x):\n"
        "        return self.net(x)\n\n"
        "class Loss:\n    def __init__(self):\n        self.features = Features().eval()\n\n"
        "    def __call__(self, x):\n        return self.features(x).sum()\n\n"
        'device = "cuda:1"\nnet = torch.nn.Linear(4, 4).to(device)\n'
        "Loss()(net(torch.ones(2, 4, device=device)))\n",
    ),
    "a wrapper that joins late": (
        "adapter-weights-on-other-device",
        "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n\nclass Low(nn.Module):\n"
        "    def __init__(self, base):\n        super().__init__()\n"
        "        self.base = base.requires_grad_(False)\n        self.a = nn.Parameter(torch.ones(2, 8))\n"
        "        self.b = nn.Parameter(torch.ones(8, 2))\n\n    def forward(self, x):\n"
        "        return self.base(x) + F.linear(F.linear(x, self.a), self.b)\n\n"
        'net = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8)).to("cuda:1")\n'
        "for name, child in list(net.named_children()):\n    if isinstance(child, nn.Linear):\n"
        '        setattr(net, name, Low(child))\nnet(torch.ones(2, 8, device="cuda:1"))\n',
    ),
    "modules in a dictionary with numbers for keys": (
        "module-left-on-other-device",
        "import torch\nfrom torch import nn\n\nclass Heads(nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n        self.body = nn.Linear(4, 4)\n"
        "        self.heads = {n: nn.Linear(4, n) for n in (2, 3)}  # one for each task\n\n"
        "    def forward(self, x):\n        return self.heads[3](self.body(x))\n\n"
        'Heads().to("cuda:1")(torch.ones(2, 4, device="cuda:1"))\n',
    ),
    "a buffer that a method makes anew": (
        "tensor-created-on-wrong-device",
        "import torch\nfrom torch import nn\n\nclass Bank(nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n        self.centers = nn.Parameter(torch.ones(4))\n"
        '        self.register_buffer("seen", torch.zeros(4))\n\n    def renew(self):\n'
        "        self.seen = torch.zeros(4)\n\n    def forward(self, x):\n        return x * self.seen\n\n"
        'bank = Bank().to("cuda:1")\nbank.renew()\nbank(torch.ones(4, device="cuda:1"))\n',
    ),
    "a head that shares a weight of another GPU": (
        "lm-head-or-tied-weight-split",
        "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n\nclass Tied(nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n"
        '        self.embed = nn.Embedding(8, 4).to("cuda:0")\n'
        '        self.body = nn.Linear(4, 4).to("cuda:1")\n\n'
        "    def forward(self, ids):\n        h = self.body(self.embed(ids).to(self.body.weight.device))\n"
        '        return F.linear(h, self.embed.weight)\n\nTied()(torch.tensor([[1, 2]], device="cuda:0"))\n',
    ),
    "an optimizer with state before the model moves": (
        "optimizer-state-on-other-device",
        "import torch\n\ndef step(device):\n    optimizer.zero_grad()\n"
        "    model(torch.ones(2, 4, device=device)).sum().backward()\n    optimizer.step()\n\n"
        "model = torch.nn.Linear(4, 4)\noptimizer = torch.optim.Adam(model.parameters(), foreach=False)\n"
        'step("cpu")\nmodel.to("cuda:1")\nstep("cuda:1")\n',
    ),
    "parts in a loop of which one has no weights": (
        "block-split-across-devices",
        "import torch\nfrom torch import nn\n\nparts = [nn.Linear(4, 4).to('cuda:0'), nn.Flatten(), "
        "nn.Linear(4, 4).to('cuda:1')]\n\ndef run(x):\n    for part in parts:\n        x = part(x)\n"
        "    return x\n\nrun(torch.ones(2, 4, device='cuda:0'))\n",
    ),
    "tables that a model hands to blocks on two GPUs": (
        "rope-table-on-wrong-device",
        """
import torch
from torch import nn

def angles(n):
    inner = torch.arange(n)[:, None] / 10.0 ** (torch.arange(4) / 4)
    return inner.cos(), inner.sin()

def turned(q, cos, sin):
    return q * cos + q.flip(-1) * sin

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.q = nn.Linear(4, 4)

    def forward(self, x, cos, sin):
        return x + turned(self.q(x), cos, sin)

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        cos, sin = angles(8)
        self.register_buffer("cos", cos.to("cuda:0"), persistent=False)
        self.register_buffer("sin", sin.to("cuda:0"), persistent=False)
        self.homes = ["cuda:0", "cuda:1"]
        self.blocks = nn.ModuleList(Block().to(home) for home in self.homes)

    def forward(self, x):
        for block, home in zip(self.blocks, self.homes):
            x = block(x.to(home), self.cos, self.sin)
        return x

print(Model()(torch.ones(8, 4)).shape)
""",
    ),
}


def findings_of(path):
    with sd.machine("2x24GB", on_mismatch="record") as machine:
        exec(
            compile(path.read_text("utf-8"), str(path), "exec"), {"__name__": "__main__"}
        )  # the test's own script
    return machine.findings


def apply(diff, text):
    """The text that a unified diff makes of `text`."""
    old, new, position = text.splitlines(keepends=True), [], 0
    for line in diff.splitlines(keepends=True):
        if line.startswith(("---", "+++", "\\")):
            continue
        if hunk := re.match(r"@@ -(\d+)", line):
            start = int(hunk[1]) - 1
            new += old[position:start]
            position = start
        elif line[0] == "+":
            new.append(line[1:])
        else:
            assert old[position] == line[1:]
            if line[0] == " ":
                new.append(line[1:])
            position += 1
    return "".join(new + old[position:])


def test_a_plain_attribute_becomes_a_buffer(tmp_path):
    """Not a device in `__init__`, which would hold on one GPU alone; a module that is never moved as a whole
    has no use for a buffer.
    """
    titles = {}
    for name in SCRIPTS:
        if name.startswith("a plain attribute"):
            path = tmp_path / "script.py"
            path.write_text(SCRIPTS[name][1], "utf-8")
            titles[name] = findings_of(path)[0].fixes[0]
    moved, placed = titles.values()
    assert 'self.register_buffer("scale", torch.ones(8), persistent=False)' in moved.diff
    assert "self.scale.to(ids.device)" in placed.diff


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_repaired_script_is_clean(name, tmp_path):
    cause, source = SCRIPTS[name]
    path = tmp_path / "script.py"
    path.write_text(source.replace("FILE", repr(str(tmp_path / "kept.pt"))), "utf-8")
    finding = findings_of(path)[0]
    assert finding.cause == cause
    fix = next(fix for fix in finding.fixes if fix.diff)
    assert fix.safety in ("safe", "check")
    repaired = apply(fix.diff, path.read_text("utf-8"))
    path = tmp_path / "repaired.py"
    path.write_text(repaired, "utf-8")
    assert findings_of(path) == []


SEVERAL = {
    "a helper of a function that is called for each GPU": (
        "import torch\n\ndef f(x):\n    bias = torch.ones(4)\n    return x + bias\n\n"
        'for i in range(2):\n    f(torch.ones(4, device=f"cuda:{i}"))\n'
    ),
    "a helper that lives outside the function": (
        "import torch\nbias = torch.ones(4)\n\ndef f(x):\n    return x + bias\n\n"
        'for i in range(2):\n    f(torch.ones(4, device=f"cuda:{i}"))\n'
    ),
    "both in one statement": (
        "import torch\n\ndef f(i):\n    return torch.ones(4, device=f'cuda:{i}') + torch.ones(4)\n\nfor i "
        "in range(2):\n    f(i)\n"
    ),
    "the name is bound again before it is used": (
        "import torch\n\ndef f(x, i):\n    bias = torch.ones(4)\n    x = x.to(f'cuda:{i}')\n    return x + "
        "bias\n\nfor i in range(2):\n    f(torch.ones(4), i)\n"
    ),
    "a helper that is computed in steps": (
        "import torch\n\ndef f(x):\n    steps = torch.arange(4)\n    scale = steps * 0.5\n    return x * "
        "scale.view(1, 4)\n\nfor i in range(2):\n    f(torch.ones(2, 4, device=f'cuda:{i}'))\n"
    ),
    "a weight of the module that runs": (
        MODEL.replace("return self", "shift = torch.zeros(8)\n        return self").replace(
            "self.embed(ids)", "(self.embed.weight[0] + shift)"
        )
        + "for i in range(2):\n    Model().to(f'cuda:{i}')(None)\n"
    ),
    "a mask that is computed from a plain attribute": (
        "import torch\nfrom torch import nn\n\nclass Attention(nn.Module):\n    def __init__(self):\n        "
        "super().__init__()\n        self.lin = nn.Linear(8, 8)\n        self.bias = "
        "torch.tril(torch.ones(4, 4)).view(1, 4, 4)\n\n    def forward(self, x):\n        x = self.lin(x)\n  "
        "      att = x @ x.transpose(1, 2)\n        return att.masked_fill(self.bias[:, :2, :2] == 0, "
        "float('-inf'))\n\nfor i in range(2):\n    Attention().to(f'cuda:{i}')(torch.ones(1, 2, 8, "
        "device=f'cuda:{i}'))\n"
    ),
    "a loss on each GPU": (
        "import torch\n\ndef loss(logits, labels):\n    return torch.nn.functional.cross_entropy(logits, "
        "labels)\n\n"
        "for i in range(2):\n    loss(torch.ones(2, 4, device=f'cuda:{i}'), torch.tensor([1, 2]))\n"
    ),
}


@pytest.mark.parametrize("name", SEVERAL)
def test_a_safe_fix_is_right_on_every_gpu(name, tmp_path):
    path = tmp_path / "script.py"
    path.write_text(SEVERAL[name], "utf-8")
    (finding,) = findings_of(path)
    assert finding.cause != "undetermined"
    fix = finding.fixes[0]
    assert fix.safety == "safe"
    assert not any(
        re.search(r"cuda:\d|\.cuda\(", line) for line in fix.diff.splitlines() if line.startswith("+")
    )
    path.write_text(apply(fix.diff, path.read_text("utf-8")), "utf-8")
    assert findings_of(path) == []


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_a_weight_of_the_module_tells_the_device(tmp_path, kind):
    call = 'model(torch.ones(2, 4, device="cuda:1"))'
    path = tmp_path / "script.py"
    path.write_text(
        "import asyncio\nimport torch\n\nclass Model(torch.nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n        self.head = torch.nn.Linear(4, 4)\n\n"
        f"    {kind} forward(self, x):\n        bias = torch.ones(4)\n"
        "        return torch.nn.functional.linear(x * 1, self.head.weight, bias)\n\n"
        'model = Model().to("cuda:1")\n' + (call if kind == "def" else f"asyncio.run({call})") + "\n",
        "utf-8",
    )
    assert "torch.ones(4, device=self.head.weight.device)" in findings_of(path)[0].fixes[0].diff


def test_no_fix_where_no_one_device_is_right(tmp_path):
    """Made once, used on two GPUs, in a line of which no name tells where: nothing is called safe."""
    path = tmp_path / "script.py"
    path.write_text(
        "import torch\nbias = torch.ones(4)\nfor i in range(2):\n    torch.ones(4, "
        "device=f'cuda:{i}').add(bias.view(4).clone())\n",
        "utf-8",
    )
    (finding,) = findings_of(path)
    for fix in finding.fixes:
        if fix.safety == "safe":
            path.write_text(apply(fix.diff, path.read_text("utf-8")), "utf-8")
            assert findings_of(path) == []
        else:
            assert not fix.diff


def test_what_the_operator_writes_is_not_moved_in_a_copy(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(
        "import torch\n\ndef f(x, total):\n    total.add_(x)\n\nf(torch.ones(4, device='cuda:0'), "
        "torch.zeros(4))\n",
        "utf-8",
    )
    (finding,) = findings_of(path)
    assert not any("total.to(" in (fix.diff or "") for fix in finding.fixes)


RANKS = {
    "rank = int(os.environ['LOCAL_RANK'])": 'f"cuda:{rank}"',
    "import os": """f"cuda:{os.environ['LOCAL_RANK']}\"""",
    "": '"cuda"',
}


@pytest.mark.parametrize("head", RANKS)
def test_the_change_is_right_on_every_rank(head, tmp_path, monkeypatch):
    monkeypatch.setenv("LOCAL_RANK", "1")
    path = tmp_path / "script.py"
    path.write_text(
        f"import torch{', os' if 'LOCAL' in head else ''}\n{head}\nx = torch.ones(4, device='cuda:1')\nm = "
        "torch.ones(4)\nx * m\n",
        "utf-8",
    )
    with VirtualMachine(parse_machine("2x24GB"), on_mismatch="record") as engine:
        exec(
            compile(path.read_text("utf-8"), str(path), "exec"), {"__name__": "__main__"}
        )  # the test's own script
    (event,) = engine.events
    alone, launched = judge(event), judge(event, ranks=(1,))
    assert "device=x.device" in alone.fixes[0].diff
    assert "device=x.device" in launched.fixes[0].diff
    assert (alone.ranks, launched.ranks) == ((), (1,))


def test_a_dispatched_model_is_not_moved(tmp_path):
    accelerate = pytest.importorskip("accelerate")
    path = tmp_path / "script.py"
    path.write_text(
        MODEL + "from accelerate import dispatch_model\n"
        'model = dispatch_model(Model(), {"embed": "cuda:0", "head": "cuda:1"}, main_device="cuda:0")\n'
        'torch.nn.Module.to(model, "cuda:0")\nmodel(torch.tensor([[1, 2]], device="cuda:0"))\n',
        "utf-8",
    )
    assert accelerate
    finding = findings_of(path)[0]
    assert finding.cause == "dispatched-model-moved"
    fix = next(fix for fix in finding.fixes if fix.diff)
    path.write_text(apply(fix.diff, path.read_text("utf-8")), "utf-8")
    assert findings_of(path) == []


def test_a_changed_script_is_left_alone(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(SCRIPTS["inputs by cuda()"][1], "utf-8")
    with sd.machine("2x24GB", on_mismatch="record") as machine:
        exec(compile(path.read_text("utf-8"), str(path), "exec"), {"__name__": "__main__"})
        path.write_text("# all is new\n" + path.read_text("utf-8"), "utf-8")
        assert not any(fix.diff for fix in machine.findings[0].fixes)


def test_known_releases_agree_with_the_zoo():
    # Cases with a half measure what nothing was written for.
    index = json.loads((ROOT / "src" / "evidence" / "zoo" / "index.json").read_text("utf-8"))
    zoo = [entry for entry in index if "half" not in entry]
    assert {entry["expect"]["file"] for entry in zoo} <= {row.file for row in releases()}
    for row in releases():
        assert row.functions
        assert row.source.startswith(("https://", "zoo/", "docs/"))
        assert not row.source.startswith("docs/") or (ROOT / row.source).exists()
        assert not row.has(row.good)
    for entry in zoo:
        package, file = entry["package"], entry["expect"]["file"]
        rows = [
            row
            for row in releases()
            if (row.package, row.file, row.good) == (package, file, entry["good"][package])
        ]
        assert any(row.has(entry["bad"][package]) for row in rows), entry["id"]


def test_what_went_on_from_a_finding_needs_no_change(tmp_path):
    """The sum stays on the GPU of the residual while the run goes on, and meets the next layer there."""
    path = tmp_path / "script.py"
    path.write_text(
        "import torch\nfrom torch import nn\n\nclass Block(nn.Module):\n    def __init__(self, device):\n"
        "        super().__init__()\n        self.device = device\n"
        "        self.ff = nn.Linear(4, 4).to(device)\n\n"
        "    def forward(self, x):\n        y = self.ff(x.to(self.device))\n        return x + y\n\n"
        "class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        '        self.blocks = nn.ModuleList([Block("cuda:0"), Block("cuda:1")])\n'
        '        self.head = nn.Linear(4, 1).to("cuda:1")\n\n    def forward(self, x):\n'
        "        for block in self.blocks:\n            x = block(x)\n        return self.head(x)\n\n"
        'Net()(torch.ones(2, 4, device="cuda:0"))\n',
        "utf-8",
    )
    first, second = findings_of(path)
    assert first.fixes[0] == second.fixes[0]
    assert "+        x = x.to(self.device)\n+        y = self.ff(x)\n" in first.fixes[0].diff


def test_each_rank_chooses_its_gpu_before_the_group_is_made(tmp_path):
    source = "import os\nimport torch.distributed as dist\n\ndef main(rank, world):\n{}"
    texts = {
        '    dist.init_process_group("nccl", rank=rank)\n': "rank % torch.cuda.device_count()",
        '    dist.init_process_group("nccl")\n': 'int(os.environ["LOCAL_RANK"])',
    }
    for start, index in texts.items():
        path = tmp_path / "launch.py"
        path.write_text(source.format(start), "utf-8")
        (fix,) = _chosen(Failure(_EVENT), Script.read(str(path)), None)
        repaired = apply(fix.diff, path.read_text("utf-8"))
        assert f"    torch.cuda.set_device({index})\n{start}" in repaired
        assert "import torch\n" in repaired


_EVENT = Event(EventKind.DUPLICATE_GPU, "broadcast", "", Place("launch.py", 5, "main"), None, None, ())


@pytest.mark.parametrize(
    ("written", "handed", "changed"),
    [
        (
            'places = {"model.embed_tokens": 0, "lm_head": 1}\nplaces |= layers\n',
            "places",
            'places["model.norm"] = places["model.embed_tokens"]\nload(device_map=places)',
        ),
        (
            'def split(n):\n    found = {}\n    found["model.layers.3.mlp"] = 1\n    found["lm_head"] = 0\n'
            "    return found\n",
            "split(3)",
            '    found["model.norm"] = found["model.layers.3.mlp"]\n    return found\n',
        ),
        ("places = named_elsewhere()\n", "places", None),
        ("from elsewhere import split\n", "split(3)", None),
    ],
)
def test_a_map_that_accelerate_refuses_gets_the_entry_that_it_lacks(written, handed, changed, tmp_path):
    script = tmp_path / "chat.py"
    source = f"{written}load(device_map={handed})\n"
    script.write_text(source, "utf-8")
    line = source.count("\n")
    (told,) = explain_text(
        f"Traceback (most recent call last):\n"
        f'  File "{script}", line {line}, in <module>\n    load(device_map={handed})\n'
        f'  File "/venv/site-packages/accelerate/utils/modeling.py", line 9, in check_device_map\n'
        f"    raise ValueError(\n"
        f"ValueError: The device_map provided does not give any device for the following parameters: "
        f"model.norm.weight\n"
    )
    found = with_map_entry(told)
    if changed is None:
        assert found == told
        return
    assert changed in apply(found.fixes[0].diff, source)
    assert found.fixes[0].safety == "safe"


KEEPER = """
import torch
from torch import nn


class Hints:
    def __init__(self):
        self.layers = [nn.Linear(4, 2), nn.Linear(4, 2)]

    def __call__(self, xs):
        return sum(layer(x).sum() for layer, x in zip(self.layers, xs))


hints = Hints()
hints([torch.ones(1, 4, device="cuda:0"), torch.ones(1, 4, device="cuda:0")])
"""


def test_an_object_that_keeps_layers_and_is_none_is_not_moved(tmp_path):
    path = tmp_path / "keeper.py"
    path.write_text(KEEPER, "utf-8")
    (finding, *_) = findings_of(path)
    assert finding.cause == "module-left-on-other-device"
    assert not any(".to(" in (fix.diff or "") and "Hints()" in fix.diff for fix in finding.fixes)
