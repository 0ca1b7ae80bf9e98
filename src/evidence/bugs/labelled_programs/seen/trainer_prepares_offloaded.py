# cause: dispatched-model-moved
# guilty: model (self.model)
# line: 63
# repair: in FineTuner.prepare do not move a model that has a device map, `if not hasattr(model, "hf_device_map"): model.to(device)`, OR let load_backbone put no module on "cpu" and skip the move
"""Fine-tune a head on a frozen encoder that is spread over two cards and the host."""
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F
from accelerate import dispatch_model


@dataclass
class TunerConfig:
    device: str = "cuda:0"
    lr: float = 1e-2
    epochs: int = 2


class Stage(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.fc = nn.Linear(dim, dim)

    def forward(self, x):
        return x + torch.tanh(self.fc(self.norm(x)))


class Backbone(nn.Module):
    def __init__(self, d_in, dim, depth):
        super().__init__()
        self.inlet = nn.Linear(d_in, dim)
        self.stages = nn.ModuleList(Stage(dim) for _ in range(depth))
        self.outlet = nn.LayerNorm(dim)

    def forward(self, x):
        x = self.inlet(x)
        for stage in self.stages:
            x = stage(x)
        return self.outlet(x)


def load_backbone(d_in, dim, depth, budget=2):
    """The first stages fill the cards, what is left over goes to the host."""
    device_map = {"inlet": 0, "outlet": 1}
    for i in range(depth):
        device_map[f"stages.{i}"] = i // budget if i < 2 * budget else "cpu"
    backbone = Backbone(d_in, dim, depth).eval()
    backbone.requires_grad_(False)
    return dispatch_model(backbone, device_map=device_map, main_device=0)


class FineTuner:
    def __init__(self, model, head, config):
        self.config = config
        self.model = self.prepare(model)
        self.head = self.prepare(head)
        self.optimizer = torch.optim.Adam(self.head.parameters(), lr=config.lr)

    def prepare(self, model):
        return model.to(self.config.device)

    def features(self, x):
        with torch.no_grad():
            return self.model(x)

    def fit(self, x, y):
        x, y = x.to(self.config.device), y.to(self.config.device)
        for epoch in range(self.config.epochs):
            loss = F.cross_entropy(self.head(self.features(x)), y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            print("epoch", epoch, "loss", loss.item())


if __name__ == "__main__":
    torch.manual_seed(0)
    backbone = load_backbone(d_in=12, dim=32, depth=5)
    tuner = FineTuner(backbone, nn.Linear(32, 3), TunerConfig())
    tuner.fit(torch.randn(64, 12), torch.randint(0, 3, (64,)))
