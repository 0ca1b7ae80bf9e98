# cause: dispatched-model-moved
# guilty: self.norm (self.norm.weight, self.core, weight)
# line: 18
# repair: drop the self.model.to(self.device) in Evaluator.__enter__ for dispatched models (only move when the model has no hf_device_map) and only move the batches
"""An evaluator that is used around models of any kind; here the model is on two cards."""
import torch
from accelerate import dispatch_model
from torch import nn


class GatedLayer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.core = nn.Parameter(torch.randn(width, 2 * width) * width ** -0.5)

    def forward(self, x):
        value, gate = (self.norm(x) @ self.core).chunk(2, -1)
        return x + value * gate.sigmoid()


class Tabular(nn.Module):
    def __init__(self, features=20, width=32, depth=4, classes=4):
        super().__init__()
        self.enter = nn.Linear(features, width)
        self.layers = nn.ModuleList([GatedLayer(width) for _ in range(depth)])
        self.leave = nn.Linear(width, classes)

    def forward(self, x):
        x = self.enter(x)
        for layer in self.layers:
            x = layer(x)
        return self.leave(x)


class Accuracy:
    def __init__(self):
        self.hits = self.seen = 0

    def update(self, logits, target):
        self.hits += int((logits.argmax(-1) == target).sum())
        self.seen += len(target)

    def value(self):
        return self.hits / max(self.seen, 1)


class Evaluator:
    """Puts the model in evaluation mode on its device and restores the mode afterwards."""

    def __init__(self, model, device="cuda:0"):
        self.model = model
        self.device = device

    def __enter__(self):
        self.was_training = self.model.training
        self.model.to(self.device)
        self.model.eval()
        return self

    def __exit__(self, *exc):
        self.model.train(self.was_training)
        return False

    @torch.no_grad()
    def run(self, loader, metric):
        for features, target in loader:
            logits = self.model(features.to(self.device))
            metric.update(logits, target.to(self.device))
        return metric.value()


def loader(rows, size, seed):
    g = torch.Generator().manual_seed(seed)
    for _ in range(rows // size):
        yield torch.randn(size, 20, generator=g), torch.randint(0, 4, (size,), generator=g)


def train_some(model, steps=2):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for features, target in loader(8 * steps, 8, 1):
        loss = nn.functional.cross_entropy(model(features.to("cuda:0")), target.to("cuda:0"))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    torch.manual_seed(0)
    plan = {"enter": 0, "layers.0": 0, "layers.1": 0, "layers.2": 1, "layers.3": 1, "leave": 1}
    network = dispatch_model(Tabular(), device_map=plan, main_device=0)
    train_some(network)
    with Evaluator(network) as evaluator:
        print("accuracy", evaluator.run(loader(32, 8, 2), Accuracy()))
