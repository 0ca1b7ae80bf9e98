"""Where a package made the mistake and the script only called it, the package is named, and the other way
round.
"""

from __future__ import annotations

import shutil
import sys
import textwrap
from dataclasses import asdict
from pathlib import Path

import pytest
from test_diagnosis_fixes import findings_of

from evidence.bugs import programs

HEAD = "import torch\nfrom torch import nn\n"

CASES = {
    "a baseline that the script left on the host": (
        ("extra-input-on-wrong-device",),
        "baseline * (1 - share)",
        """
        def path_integral(model, inputs, baseline, steps=3):
            total = 0
            for step in range(steps):
                share = torch.full((1, 1), step / steps, device=inputs.device).to(baseline.device)
                mixed = inputs * float(step / steps) + baseline * (1 - share)
                total = total + model(mixed)
            return total / steps
        """,
        """
        model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3)).to("cuda:0")
        grey = torch.full((1, 6), 0.5)
        print(kit.path_integral(model, torch.randn(4, 6, device="cuda:0"), grey).shape)
        """,
    ),
    "a number among the options of an optimizer that came from a checkpoint": (
        ("optimizer-state-on-other-device", "checkpoint-map-location"),
        "gain.mul_(0.9)",
        """
        class Gained(torch.optim.Optimizer):
            def __init__(self, params, lr=0.01):
                super().__init__(params, {"lr": lr})

            @torch.no_grad()
            def step(self):
                for group in self.param_groups:
                    first = group["params"][0]
                    gain = group.setdefault("gain", torch.ones(1, device=first.device))
                    for p in group["params"]:
                        if p.grad is None:
                            continue
                        gain.mul_(0.9).add_(p.grad.norm().view(1), alpha=0.1)
                        p.sub_(p.grad, alpha=group["lr"])
        """,
        """
        import io
        def fit(model, optimizer):
            for _ in range(2):
                optimizer.zero_grad()
                model(torch.randn(4, 8, device="cuda:0")).square().mean().backward()
                optimizer.step()
        model = nn.Linear(8, 2).to("cuda:0")
        optimizer = kit.Gained(model.parameters())
        fit(model, optimizer)
        file = io.BytesIO()
        torch.save(optimizer.state_dict(), file)
        file.seek(0)
        again = kit.Gained(model.parameters())
        again.load_state_dict(torch.load(file, map_location="cpu", weights_only=False))
        fit(model, again)
        """,
    ),
    "a sum that an optimizer keeps for all its parameters": (
        ("optimizer-state-on-other-device", "checkpoint-map-location"),
        "total",
        """
        class Summed(torch.optim.Optimizer):
            def __init__(self, params, lr=0.01):
                super().__init__(params, {"lr": lr})

            @torch.no_grad()
            def step(self):
                head = self.param_groups[0]
                if "total" not in head:
                    head["total"] = torch.zeros(1, device=head["params"][0].device)
                total = head["total"]
                for group in self.param_groups:
                    for p in group["params"]:
                        total.add_((p.grad * p).sum())
                        p.sub_(p.grad, alpha=group["lr"])
        """,
        """
        import io
        def fit(model, optimizer):
            for _ in range(2):
                optimizer.zero_grad()
                model(torch.randn(4, 8, device="cuda:0")).square().mean().backward()
                optimizer.step()
        model = nn.Linear(8, 2).to("cuda:0")
        optimizer = kit.Summed(model.parameters())
        fit(model, optimizer)
        file = io.BytesIO()
        torch.save(optimizer.state_dict(), file)
        file.seek(0)
        again = kit.Summed(model.parameters())
        again.load_state_dict(torch.load(file, map_location="cpu", weights_only=False))
        fit(model, again)
        """,
    ),
    "layers that a function put into a loaded copy": (
        ("module-left-on-other-device", "tensor-created-on-wrong-device"),
        "1.weight",
        """
        import io

        def learnable(model):
            file = io.BytesIO()
            torch.save(model, file)
            file.seek(0)
            copied = torch.load(file, weights_only=False)
            for name, child in list(copied.named_children()):
                if isinstance(child, nn.ReLU):
                    setattr(copied, name, nn.PReLU(8))
            return copied
        """,
        """
        net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 2)).to("cuda:0")
        net = kit.learnable(net)
        print(net(torch.randn(4, 6, device="cuda:0")).shape)
        """,
    ),
    "a trial run in a constructor": (
        ("tensor-created-on-wrong-device",),
        "picture",
        """
        def width_of(network, picture):
            return network(picture).shape[1]

        class Probe:
            def __init__(self, network, size):
                picture = torch.rand(1, 3, size, size)
                self.head = nn.Linear(width_of(network, picture), 2)
        """,
        """
        network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten()).to("cuda:0")
        probe = kit.Probe(network, 8)
        """,
    ),
    "what a layer of a package gives back beside its result": (
        ("tensor-created-on-wrong-device",),
        "shares",
        """
        class Pool(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.key = nn.Linear(width, 1)

            def forward(self, x):
                scores = self.key(x).softmax(1)
                shares = torch.zeros(x.shape[0], x.shape[1])
                for row in range(x.shape[0]):
                    shares[row] = scores[row, :, 0].detach().cpu()
                return (scores * x).sum(1), shares
        """,
        """
        pool = kit.Pool(6).to("cuda:0")
        head = nn.Linear(5, 2).to("cuda:0")
        pooled, shares = pool(torch.randn(3, 5, 6, device="cuda:0"))
        print(head(shares).shape)
        """,
    ),
    "a weight that was made anew beside a bias that stayed": (
        ("module-left-on-other-device", "tensor-created-on-wrong-device"),
        "self.weight",
        """
        import torch.nn.functional as F

        class Growing(nn.Module):
            def __init__(self, width, out):
                super().__init__()
                self.weight = nn.Parameter(torch.randn(out, width))
                self.bias = nn.Parameter(torch.zeros(out))

            def widen(self, width):
                self.weight = nn.Parameter(torch.randn(self.weight.shape[0], width))

            def forward(self, x):
                return F.linear(x, self.weight, self.bias)
        """,
        """
        layer = kit.Growing(6, 4).to("cuda:0")
        layer.widen(8)
        print(layer(torch.randn(3, 8, device="cuda:0")).shape)
        """,
    ),
    "what two parts of a pipeline computed, each on its own GPU": (
        ("embedding-streams-on-different-devices",),
        "embeds_list",
        """
        class Pipeline:
            def __init__(self, first, second):
                self.first, self.second = first, second

            def encode(self, ids):
                embeds_list = []
                for encoder in (self.first, self.second):
                    embeds = encoder(ids.to(next(encoder.parameters()).device))
                    embeds_list.append(embeds)
                return torch.concat(embeds_list, dim=-1)
        """,
        """
        longer = nn.Sequential(nn.Embedding(9, 4), nn.Linear(4, 4))
        pipeline = kit.Pipeline(nn.Embedding(9, 4).to("cuda:1"), longer.to("cuda:0"))
        print(pipeline.encode(torch.zeros(2, 3, dtype=torch.long)).shape)
        """,
    ),
    "a mask that a package makes beside a table which was moved with its keeper": (
        ("tensor-created-on-wrong-device",),
        "chosen",
        """
        class Ledger:
            def __init__(self, rows):
                self.kept = {"rows": rows}

            def to(self, device):
                self.kept["rows"] = self.kept["rows"].to(device)
                return self

            def add(self, row):
                self.kept["rows"] = torch.cat([self.kept["rows"], row[None]])

            def pick(self, chosen):
                rows = self.kept["rows"]
                return rows * chosen[:, None]

        def richest(ledger):
            sums = ledger.kept["rows"].sum(-1).tolist()
            return ledger.pick(torch.tensor([each >= max(sums) for each in sums]))
        """,
        """
        ledger = kit.Ledger(torch.rand(4, 3)).to("cuda:1")
        ledger.add(torch.rand(3, device="cuda:1"))
        print(kit.richest(ledger).shape)
        """,
    ),
    "a table that its keeper left on the host beside what a package makes on a GPU": (
        ("cache-or-beam-state-on-wrong-device", "tensor-created-on-wrong-device"),
        "rows",
        """
        class Ledger:
            def __init__(self, width):
                self.kept = {"rows": torch.zeros(1, width)}

            def add(self, row):
                rows = self.kept["rows"]
                self.kept["rows"] = torch.cat([rows, row[None]])
                return self.kept["rows"]
        """,
        """
        model = nn.Linear(4, 3).to("cuda:1")
        ledger = kit.Ledger(3)
        for _ in range(2):
            print(ledger.add(model(torch.rand(4, device="cuda:1")).detach()).shape)
        """,
    ),
    "offsets that the script hands to a package": (
        {"extra-input-on-wrong-device"},
        "self.offsets",
        """
        class Calibration:
            def __init__(self, model, offsets):
                self.model, self.offsets = model, offsets

            def apply(self, batch):
                scores = self.model(batch)
                return (scores - self.offsets).square().sum()
        """,
        """
        calibration = kit.Calibration(nn.Linear(4, 3).to("cuda:0"), torch.full((3,), 0.5))
        print(calibration.apply(torch.ones(2, 4, device="cuda:0")))
        """,
    ),
    "pictures of one model that a package hands to another": (
        {"input-not-on-embedding-device", "extra-input-on-wrong-device", "module-left-on-other-device"},
        "x",
        """
        class Decoder(nn.Module):
            def __init__(self):
                super().__init__()
                self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 2)

            def forward(self, x):
                return self.second(self.first(x))

        class Pipeline:
            def __init__(self, drafts, decoder):
                self.drafts, self.decoder = drafts, decoder

            def __call__(self, x):
                return self.decoder(self.drafts(x).tanh())
        """,
        """
        pipeline = kit.Pipeline(nn.Linear(4, 4).to("cuda:0"), kit.Decoder().to("cuda:1"))
        print(pipeline(torch.ones(1, 4, device="cuda:0")).shape)
        """,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_maker_of_the_mistake_is_named(name, tmp_path, monkeypatch):
    causes, tensor, package, script = CASES[name]
    packages = tmp_path / "site-packages"
    packages.mkdir()
    monkeypatch.syspath_prepend(str(packages))
    module = f"kit_{[*CASES].index(name)}"
    (packages / f"{module}.py").write_text(HEAD + textwrap.dedent(package), "utf-8")
    path = tmp_path / "script.py"
    path.write_text(f"{HEAD}import {module} as kit\n{textwrap.dedent(script)}", "utf-8")
    found = findings_of(path)[0]
    blamed = next(each for each in found.operands if each.name == found.guilty)
    assert found.cause in causes
    assert tensor in (blamed.local, blamed.parameter, blamed.argument)


PACKAGES = sorted(path for path in (Path(__file__).parent / "packages").iterdir() if path.is_dir())


@pytest.mark.parametrize("folder", PACKAGES, ids=lambda path: path.name)
@pytest.mark.sample(2)
def test_the_cause_is_named_between_a_script_and_a_package(folder, tmp_path, monkeypatch):
    packages = tmp_path / "site-packages"
    packages.mkdir()
    shutil.copy(folder / "kit.py", packages)
    script = Path(shutil.copy(folder / "script.py", tmp_path))
    monkeypatch.syspath_prepend(str(packages))
    monkeypatch.delitem(sys.modules, "kit", raising=False)
    causes, guilty = programs.labels(script)
    found = asdict(findings_of(script)[0])
    monkeypatch.delitem(sys.modules, "kit", raising=False)
    assert found["cause"] in causes
    assert guilty == "?" or programs.is_named(found, guilty)
