# cause: device-map-incomplete-or-wrong|lm-head-or-tied-weight-split
# guilty: self.head (mod)
import torch
import torch.nn as nn


class ConvStage(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.conv = nn.Conv1d(cin, cout, 5, padding=2)
        self.bn = nn.BatchNorm1d(cout)

    def forward(self, x):
        return torch.relu(self.bn(self.conv(x)))


class ECGNet(nn.Module):
    order = ("stem", "stage1", "stage2", "stage3", "pool", "head")

    def __init__(self):
        super().__init__()
        self.stem = ConvStage(2, 16)
        self.stage1 = ConvStage(16, 24)
        self.stage2 = ConvStage(24, 32)
        self.stage3 = ConvStage(32, 48)
        self.pool = nn.AdaptiveAvgPool1d(1)
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(48, 4))


class Pipe:
    def __init__(self, net, plan, fallback="cuda:0"):
        self.steps = []
        self.plan = {}
        for name in net.order:
            dev = next((d for prefix, d in plan.items() if name.startswith(prefix)), fallback)
            self.plan[name] = torch.device(dev)
            self.steps.append((name, getattr(net, name).to(dev)))
        # places where the activation has to change GPU
        self.cuts = {}
        names = [s for s in plan]
        for before, after in zip(names, names[1:]):
            if plan[before] != plan[after]:
                self.cuts[after] = torch.device(plan[after])

    def __call__(self, x):
        x = x.to(self.plan["stem"])
        for name, mod in self.steps:
            if name in self.cuts:
                x = x.to(self.cuts[name])
            x = mod(x)
        return x


def fit(pipe, net, steps=3):
    opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    for _ in range(steps):
        x, y = torch.randn(8, 2, 120), torch.randint(0, 4, (8,))
        logits = pipe(x)
        loss = nn.functional.cross_entropy(logits, y.to(logits.device))
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"{loss.item():.4f}")


torch.manual_seed(0)
net = ECGNet()
plan = {"stem": "cuda:0", "stage1": "cuda:0", "stage2": "cuda:1", "stage3": "cuda:1", "pool": "cuda:1"}
fit(Pipe(net, plan), net)
