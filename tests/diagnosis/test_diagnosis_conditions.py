"""What the conditions of causes ask of decisions and of source: each fires on one program and stays silent
on its neighbour, which differs in that one point.
"""

from __future__ import annotations

import textwrap

import pytest
from test_diagnosis_fixes import findings_of

HEAD = "import torch\nimport torch.nn.functional as F\nfrom torch import nn\n"

PAIRS = {
    "sent to where another model is, past one that was placed without a number, or to a GPU by its name": (
        "module-left-on-other-device",
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.a = nn.Linear(4, 4)
            def forward(self, x):
                return self.a(x)
        class Chain:
            def __init__(self, first, second):
                self.first, self.second = first, second
                self.device = next(second.parameters()).device
            def __call__(self, x):
                x = x.to(self.device)
                return self.second(self.first(x))
        Chain(Net().to("cuda"), Net().to("cuda:1"))(torch.ones(2, 4))
        """,
        "input-not-on-embedding-device",
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.a = nn.Linear(4, 4)
            def forward(self, x):
                return self.a(x)
        class Chain:
            def __init__(self, first, second):
                self.first, self.second = first, second
            def __call__(self, x):
                x = x.to("cuda:1")
                return self.second(self.first(x))
        Chain(Net().to("cuda:0"), Net().to("cuda:1"))(torch.ones(2, 4))
        """,
    ),
    "computed for the statement out of a file, or kept": (
        "checkpoint-map-location",
        """
        import io
        net = nn.Sequential(nn.Linear(4, 4).to("cuda:0"), nn.Linear(4, 4).to("cuda:1"))
        file = io.BytesIO()
        torch.save({"up": torch.ones(4, 2), "down": torch.ones(2, 4)}, file)
        file.seek(0)
        pair = torch.load(file, map_location=net[0].weight.device)
        def product(pair):
            return pair["up"] @ pair["down"]
        with torch.no_grad():
            net[1].weight.add_(product(pair))
        """,
        "optimizer-state-on-other-device",
        """
        net = nn.Sequential(nn.Linear(4, 4).to("cuda:0"), nn.Linear(4, 4).to("cuda:1"))
        class Average:
            def __init__(self, weight):
                self.kept = weight.detach().clone()
            def step(self, weight):
                with torch.no_grad():
                    self.kept.mul_(0.9).add_(weight)
        average = Average(net[0].weight)
        average.step(net[1].weight)
        """,
    ),
    "ids of a further argument, or the main ones": (
        "extra-input-on-wrong-device",
        """
        class Tower(nn.Module):
            def __init__(self):
                super().__init__()
                self.shapes = nn.Embedding(4, 4)
            def forward(self, x, shape):
                return x.to("cuda:1") + self.shapes(shape)
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.words = nn.Embedding(9, 4).to("cuda:0")
                self.tower = Tower().to("cuda:1")
            def forward(self, ids, shape):
                x = self.words(ids)
                return self.tower(x, shape)
        def run(net, *batch):
            return net(*(each.to("cuda:0") for each in batch))
        run(Net(), torch.tensor([1]), torch.tensor([2]))
        """,
        "input-not-on-embedding-device",
        """
        class Tower(nn.Module):
            def __init__(self):
                super().__init__()
                self.words = nn.Embedding(4, 4)
            def forward(self, ids):
                return self.words(ids)
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.tower = Tower().to("cuda:1")
                self.head = nn.Linear(4, 4).to("cuda:0")
            def forward(self, ids):
                return self.head(self.tower(ids).to("cuda:0"))
        def run(net, *batch):
            return net(*(each.to("cuda:0") for each in batch))
        run(Net(), torch.tensor([1]))
        """,
    ),
    "put beside the ids of the model that chose, or into a table of its own": (
        "lm-head-or-tied-weight-split",
        """
        net = nn.Sequential(nn.Embedding(9, 4).to("cuda:0"), nn.Linear(4, 9).to("cuda:1"))
        class Engine:
            def __init__(self, net):
                self.net = net
                self.last = torch.zeros(2, dtype=torch.long, device=net[0].weight.device)
            def step(self):
                scores = self.net[1](self.net[0](self.last).to("cuda:1"))
                self.last[torch.arange(2, device="cuda:0")] = scores.argmax(-1)
        Engine(net).step()
        """,
        "metric-state-device",
        """
        net = nn.Sequential(nn.Embedding(9, 4).to("cuda:1"), nn.Linear(4, 9).to("cuda:1"))
        class Counts:
            def __init__(self):
                self.seen = torch.zeros(9, dtype=torch.long)
            def update(self, ids):
                self.seen += torch.bincount(ids, minlength=9)
        counts = Counts()
        counts.update(net(torch.tensor([1, 2], device="cuda:1")).argmax(-1))
        """,
    ),
    "a part that was not brought back, or a layer on another GPU": (
        "cache-or-beam-state-on-wrong-device",
        """
        class Bank:
            def __init__(self):
                self.maps, self.marks = [], []
            def write(self, x):
                self.maps.append(x.detach().to("cuda:1"))
                self.marks.append(x.detach().to("cuda:1"))
            def read(self, device):
                maps = torch.stack([each.to(device) for each in self.maps])
                marks = torch.stack(list(self.marks))
                return torch.cat([maps, marks])
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.a = nn.Linear(4, 4)
            def forward(self, x, bank):
                y = self.a(x)
                bank.write(y)
                return y + bank.read(y.device).mean()
        Net().to("cuda:0")(torch.ones(2, 4, device="cuda:0"), Bank())
        """,
        "block-split-across-devices",
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.a = nn.Linear(4, 4).to("cuda:0")
                self.b = nn.Linear(4, 4).to("cuda:1")
            def forward(self, x):
                y = self.a(x)
                return torch.cat([y, self.b(y.to("cuda:1"))])
        Net()(torch.ones(2, 4, device="cuda:0"))
        """,
    ),
    "what an object collected and parked, or what a function took to the host": (
        "metric-state-device",
        """
        class Curve:
            def __init__(self):
                self.bins = torch.linspace(0, 1, 4, device="cuda:0")
                self.scores = []
            def update(self, scores):
                self.scores.append(scores)
                self.scores = [each.cpu() for each in self.scores]
            def compute(self):
                scores = torch.cat(self.scores)
                return scores[:, None] > self.bins[None]
        net = nn.Linear(4, 1).to("cuda:0")
        curve = Curve()
        curve.update(net(torch.ones(2, 4, device="cuda:0")).detach()[:, 0])
        curve.compute()
        """,
        "hard-coded-device",
        """
        def above(scores, bins):
            scores = scores.cpu()
            return scores[:, None] > bins[None]
        net = nn.Linear(4, 1).to("cuda:0")
        bins = torch.linspace(0, 1, 4, device="cuda:0")
        above(net(torch.ones(2, 4, device="cuda:0")).detach()[:, 0], bins)
        """,
    ),
    "made while the model runs, or handed in": (
        "tensor-created-on-wrong-device",
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.a = nn.Linear(4, 4)
            def steps(self, n):
                return torch.arange(n).float()
            def forward(self, x):
                return self.a(x) * self.steps(4)
        Net().to("cuda:0")(torch.ones(2, 4, device="cuda:0"))
        """,
        "extra-input-on-wrong-device",
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.a = nn.Linear(4, 4)
            def forward(self, x, steps):
                return self.a(x) * steps
        Net().to("cuda:0")(torch.ones(2, 4, device="cuda:0"), torch.arange(4).float())
        """,
    ),
    "two inputs, or one": (
        "embedding-streams-on-different-devices",
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.a = nn.Sequential(nn.Linear(4, 4), nn.ReLU()).to("cuda:0")
                self.b = nn.Sequential(nn.Linear(4, 4), nn.ReLU()).to("cuda:1")
            def forward(self, one, other):
                first = self.a(one.to("cuda:0"))
                second = self.b(other.to("cuda:1"))
                return torch.cat([first, second])
        Net()(torch.ones(2, 4), torch.zeros(2, 4))
        """,
        "block-split-across-devices",
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.a = nn.Sequential(nn.Linear(4, 4), nn.ReLU()).to("cuda:0")
                self.b = nn.Sequential(nn.Linear(4, 4), nn.ReLU()).to("cuda:1")
            def forward(self, one):
                first = self.a(one.to("cuda:0"))
                second = self.b(first.to("cuda:1"))
                return torch.cat([first, second])
        Net()(torch.ones(2, 4))
        """,
    ),
    "gradients are taken of it, or not": (
        "loss-or-label-on-other-device",
        """
        net = nn.Linear(4, 1).to("cuda:0")
        def cost(x, wanted):
            return (net(x) - wanted).pow(2).mean()
        for x, wanted in [(torch.ones(2, 4), torch.ones(2, 1))]:
            value = cost(x.to("cuda:0"), wanted)
            value.backward()
        """,
        "extra-input-on-wrong-device",
        """
        net = nn.Linear(4, 1).to("cuda:0")
        def shifted(x, by):
            return net(x) - by
        for x, by in [(torch.ones(2, 4), torch.ones(2, 1))]:
            print(shifted(x.to("cuda:0"), by).tolist())
        """,
    ),
    "grows from call to call, or is read alone": (
        "metric-state-device",
        """
        net = nn.Linear(4, 3).to("cuda:0")
        class Sum:
            def __init__(self):
                self.all = torch.zeros(3)
            def add(self, x):
                self.all += x.sum(0)
        Sum().add(net(torch.ones(2, 4, device="cuda:0")).detach())
        """,
        "tensor-created-on-wrong-device",
        """
        net = nn.Linear(4, 3).to("cuda:0")
        class Scale:
            def __init__(self):
                self.all = torch.ones(3)
            def of(self, x):
                return x * self.all
        Scale().of(net(torch.ones(2, 4, device="cuda:0")).detach())
        """,
    ),
    "wraps a placed layer, or is new as a whole": (
        "adapter-weights-on-other-device",
        """
        class Wrap(nn.Module):
            def __init__(self, layer):
                super().__init__()
                self.layer, self.more = layer, nn.Parameter(torch.ones(4))
            def forward(self, x):
                return self.layer(x) * self.more
        net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)).to("cuda:0")
        net[1] = Wrap(net[1])
        net(torch.ones(2, 4, device="cuda:0"))
        """,
        "module-left-on-other-device",
        """
        class New(nn.Module):
            def __init__(self):
                super().__init__()
                self.more = nn.Parameter(torch.ones(4))
            def forward(self, x):
                return x * self.more
        net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)).to("cuda:0")
        net[1] = New()
        net(torch.ones(2, 4, device="cuda:0"))
        """,
    ),
    "the literal stands in the function, or where the script chooses": (
        "hard-coded-device",
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.a = nn.Linear(4, 4)
            def forward(self, x):
                return self.a(x) + torch.ones(4, device="cuda:0")
        device = "cuda:1"
        Net().to(device)(torch.ones(2, 4, device=device))
        """,
        "input-not-on-embedding-device",
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.a = nn.Linear(4, 4)
            def forward(self, x):
                return self.a(x) + torch.ones(4, device=x.device)
        device = "cuda:1"
        Net().to(device)(torch.ones(2, 4, device="cuda:0"))
        """,
    ),
    "cosine and sine turn, or are put side by side": (
        "rope-table-on-wrong-device",
        """
        def table(n):
            angles = torch.outer(torch.arange(n).float(), torch.ones(2))
            return angles.cos(), angles.sin()
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.q = nn.Linear(2, 2)
            def forward(self, x, tables):
                cos, sin = tables
                x = self.q(x)
                return x * cos + x.flip(-1) * sin
        Net().to("cuda:0")(torch.ones(3, 2, device="cuda:0"), table(3))
        """,
        "tensor-created-on-wrong-device",
        """
        def table(n):
            angles = torch.outer(torch.arange(n).float(), torch.ones(1))
            return torch.cat([angles.cos(), angles.sin()], -1)
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.q = nn.Linear(2, 2)
            def forward(self, x):
                return self.q(x) * table(3)
        Net().to("cuda:0")(torch.ones(3, 2, device="cuda:0"))
        """,
    ),
    "added to what a placed layer computes, or in its place": (
        "adapter-weights-on-other-device",
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b = nn.Linear(4, 4), nn.Identity()
            def forward(self, x):
                x = self.a(x)
                return x + self.b(x)
        net = Net().to("cuda:0")
        net.b = nn.Sequential(nn.Linear(4, 2), nn.Linear(2, 4))
        net(torch.ones(2, 4, device="cuda:0"))
        """,
        "module-left-on-other-device",
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b = nn.Linear(4, 4), nn.Identity()
            def forward(self, x):
                return self.b(self.a(x))
        net = Net().to("cuda:0")
        net.b = nn.Linear(4, 3)
        net(torch.ones(2, 4, device="cuda:0"))
        """,
    ),
    "state made like a weight before that moved, or without a device after it": (
        "optimizer-built-before-move",
        """
        net = nn.Linear(4, 1)
        state = {p: torch.zeros_like(p) for p in net.parameters()}
        net.to("cuda:0")
        net(torch.ones(2, 4, device="cuda:0")).sum().backward()
        for p in net.parameters():
            state[p].add_(p.grad)
        """,
        "optimizer-state-on-other-device",
        """
        net = nn.Linear(4, 1)
        net.to("cuda:0")
        state = {p: torch.zeros(p.shape) for p in net.parameters()}
        net(torch.ones(2, 4, device="cuda:0")).sum().backward()
        for p in net.parameters():
            state[p].add_(p.grad)
        """,
    ),
    "a GPU on which the model has nothing, or one where its first layer is": (
        "hard-coded-device",
        """
        class Head(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 2)
            def forward(self, x):
                return self.b(self.a(x).to("cuda:0"))
        Head().to("cuda:1")(torch.ones(2, 4, device="cuda:1"))
        """,
        "block-split-across-devices",
        """
        class Head(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 2)
            def forward(self, x):
                return self.b(self.a(x).to("cuda:0"))
        head = Head().to("cuda:1")
        head.a.to("cuda:0")
        head(torch.ones(2, 4, device="cuda:0"))
        """,
    ),
    "a layer took the same input, or another one": (
        "block-split-across-devices",
        """
        class Res(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b = nn.Linear(4, 4).to("cuda:0"), nn.Linear(4, 4).to("cuda:1")
            def forward(self, x):
                return x + self.b(self.a(x).to("cuda:1"))
        Res()(torch.ones(2, 4, device="cuda:0"))
        """,
        "extra-input-on-wrong-device",
        """
        class Res(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b = nn.Linear(4, 4).to("cuda:0"), nn.Linear(4, 4).to("cuda:1")
            def forward(self, x, other):
                return other + self.b(self.a(x).to("cuda:1"))
        Res()(torch.ones(2, 4, device="cuda:0"), torch.ones(2, 4, device="cuda:0"))
        """,
    ),
    "an object that writes into itself keeps it, or one that never does": (
        "cache-or-beam-state-on-wrong-device",
        """
        class Bank:
            def __init__(self):
                self.keys = torch.zeros(8, 4)
            def push(self, new):
                self.keys[:len(new)] = new.cpu()
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.bank = nn.Linear(4, 4), Bank()
            def forward(self, x):
                scores = self.a(x) @ self.bank.keys.clone().T
                self.bank.push(x)
                return scores
        Net().to("cuda:0")(torch.ones(2, 4, device="cuda:0"))
        """,
        "tensor-created-on-wrong-device",
        """
        class Bank:
            def __init__(self):
                self.keys = torch.zeros(8, 4)
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.bank = nn.Linear(4, 4), Bank()
            def forward(self, x):
                return self.a(x) @ self.bank.keys.clone().T
        Net().to("cuda:0")(torch.ones(2, 4, device="cuda:0"))
        """,
    ),
    "computed before the model moved, or by a part that is elsewhere": (
        "cache-or-beam-state-on-wrong-device",
        """
        class Cell(nn.Module):
            def __init__(self):
                super().__init__()
                self.a = nn.Linear(4, 4)
            def forward(self, x, h):
                return self.a(x) if h is None else self.a(h) + x
        cell = Cell().to("cuda:0")
        h = cell(torch.ones(2, 4, device="cuda:0"), None)
        cell.to("cuda:1")
        cell(torch.ones(2, 4, device="cuda:1"), h)
        """,
        "block-split-across-devices",
        """
        class Cell(nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b = nn.Linear(4, 4).to("cuda:0"), nn.Linear(4, 4).to("cuda:1")
            def forward(self, x):
                return self.b(self.a(x))
        Cell()(torch.ones(2, 4, device="cuda:0"))
        """,
    ),
    "a loop over a table placed the others, or each a line of its own": (
        "device-map-incomplete-or-wrong",
        """
        net = nn.ModuleDict({"a": nn.Linear(4, 4), "b": nn.Linear(4, 4)})
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.parts = net
            def forward(self, x):
                return self.parts["b"](self.parts["a"](x))
        model = Net()
        for name, number in {"a": 1}.items():
            model.parts[name].to(f"cuda:{number}")
        model(torch.ones(2, 4, device="cuda:1"))
        """,
        "module-left-on-other-device",
        """
        net = nn.ModuleDict({"a": nn.Linear(4, 4), "b": nn.Linear(4, 4)})
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.parts = net
            def forward(self, x):
                return self.parts["b"](self.parts["a"](x))
        model = Net()
        model.parts["a"].to("cuda:1")
        model(torch.ones(2, 4, device="cuda:1"))
        """,
    ),
    "two models choose the tokens, or two parts of one": (
        "generation-helper-on-wrong-device",
        """
        big = nn.Sequential(nn.Embedding(9, 4), nn.Linear(4, 9)).to("cuda:0")
        small = nn.Sequential(nn.Embedding(9, 4), nn.Linear(4, 9)).to("cuda:1")
        tokens = torch.zeros(1, dtype=torch.long)
        for _ in range(2):
            mixed = big(tokens.to("cuda:0")) - small(tokens.to("cuda:1"))
            tokens = mixed.argmax(-1)
        """,
        "block-split-across-devices",
        """
        class Two(nn.Module):
            def __init__(self):
                super().__init__()
                self.big = nn.Sequential(nn.Embedding(9, 4), nn.Linear(4, 9)).to("cuda:0")
                self.small = nn.Sequential(nn.Embedding(9, 4), nn.Linear(4, 9)).to("cuda:1")
            def forward(self, tokens):
                return self.big(tokens.to("cuda:0")) - self.small(tokens.to("cuda:1"))
        two = Two()
        tokens = torch.zeros(1, dtype=torch.long)
        for _ in range(2):
            tokens = two(tokens).argmax(-1)
        """,
    ),
}


def cause(program, tmp_path, name):
    path = tmp_path / f"{name}.py"
    path.write_text(HEAD + textwrap.dedent(program), "utf-8")
    first, *_ = findings_of(path)
    return first.cause


@pytest.mark.parametrize("pair", PAIRS)
def test_a_condition_fires_and_stays_silent(pair, tmp_path):
    one, fires, other, silent = PAIRS[pair]
    assert (cause(fires, tmp_path, "fires"), cause(silent, tmp_path, "silent")) == (one, other)


REPLACED = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.seen = nn.Linear(4, 4), nn.Identity(), set()
    def forward(self, x):
        x = self.a(x)
        {}
        return y
net = Net().to("cuda:0")
net.b = nn.Sequential(nn.Linear(4, 2), nn.Linear(2, 4))
net(torch.ones(2, 4, device="cuda:0"))
"""


@pytest.mark.parametrize(
    "mention",
    [
        "y = self.b(x)\n        print('shape ' + str(y.shape))",
        "y = self.b(x)\n        rows = [None for _ in range(y.size(0) + 1)]",
        "y = self.b(x)\n        rows = len(y)\n        end = rows + 1",
        "y = self.b(x)\n        end = 0\n        rows = y.shape[0]\n        end = end + rows",
        "y = self.b(x)\n        self.seen.add(y.shape)",
        "y = self.b(x)\n        self.seen.add(y)",
        "y = x\n        print('shape ' + str(self.b(x).shape))",
        "y = x\n        print('values ' + str(self.b(x)))",
    ],
)
def test_what_only_mentions_a_result_does_not_add_it(mention, tmp_path):
    assert cause(REPLACED.format(mention), tmp_path, "mentions") == "module-left-on-other-device"


@pytest.mark.parametrize(
    "sum_",
    [
        "y = self.b(x)\n        y = x + y * 0.5",
        "y = self.b(x)\n        y = x + y[:]",
        "y = x\n        y += self.b(x)",
        "y = self.b(x)\n        y = y.add(x)",
        "y = self.b(x)\n        y = torch.cat([x, y])",
        "parts = [x]\n        parts.append(self.b(x))\n        y = torch.cat(parts)",
        "y = x + F.relu(self.b(x)) * 0.5",
        "y = x + self.b(x).to(x.dtype)",
    ],
)
def test_a_sum_with_the_result_itself_adds_it(sum_, tmp_path):
    assert cause(REPLACED.format(sum_), tmp_path, "adds") == "adapter-weights-on-other-device"


ASKS = """
class Pool:
    def __init__(self, net):
        self.net = net
    def get(self):
        return next(iter({{p.device for p in self.net.parameters()}}))
    def main(self):
        return self.get()
    def used(self):
        return {{p.device for p in self.net.parameters()}}
    def keys(self):
        return {{p.device for p in self.net.parameters()}}
class Other:
    def used(self):
        return {{"cuda:0"}}
net = nn.ModuleDict({{"a": nn.Linear(4, 4).to("cuda:1"), "b": nn.Linear(4, 2).to("cuda:0")}})
pool, cfg = Pool(net), {{"device": "cuda:0", "cuda:0": 1}}
x = torch.randn(2, 4).to({})
net["b"](net["a"](x).to("cuda:0"))
"""


@pytest.mark.parametrize(
    ("asked", "picked"),
    [
        ("pool.main()", True),
        ('cfg.get("device")', False),
        ("list(cfg.keys())[1]", False),
        ("next(iter(Other().used()))", False),
    ],
)
def test_the_method_of_another_object_is_known_by_a_name_that_only_one_has(asked, picked, tmp_path):
    found = cause(ASKS.format(asked), tmp_path, "asks")
    assert (found == "device-from-unordered-set") is picked


@pytest.mark.parametrize("lines", [3, 40])
def test_no_cause_is_told_from_a_part_of_the_placements(lines, tmp_path):
    moves = "\n".join(f'net.parts[{each}].to("cuda:1")' for each in range(lines))
    program = f"""
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = nn.ModuleList(nn.Linear(4, 4) for _ in range({lines + 1}))
    def forward(self, x):
        return self.parts[0](self.parts[-1](x))
net = Net()
for part in net.parts:
    part.to("cuda:0")
{moves}
net(torch.ones(2, 4, device="cuda:0"))
"""
    assert cause(program, tmp_path, "placed") == "block-split-across-devices"
