# cause: device-ordinal-out-of-range
# guilty: ?
"""Two members of an ensemble, one GPU each; the box has two cards."""
import json

import torch
import torch.nn as nn

CONFIG = json.loads("""
{
  "seed": 3,
  "gpus": [1, 2],
  "members": [{"width": 16, "lr": 0.01}, {"width": 32, "lr": 0.005}],
  "epochs": 2
}
""")


class Member:
    def __init__(self, spec, device):
        self.device = torch.device(device)
        net = nn.Sequential(nn.Linear(7, spec["width"]), nn.ELU(), nn.Linear(spec["width"], 1))
        self.net = net.to(self.device)
        self.opt = torch.optim.Adam(self.net.parameters(), lr=spec["lr"])

    def fit(self, x, y):
        x, y = x.to(self.device), y.to(self.device)
        pick = torch.randint(0, len(x), (len(x),), device=self.device)     # bootstrap
        loss = nn.functional.mse_loss(self.net(x[pick]).squeeze(1), y[pick])
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return loss.item()

    @torch.no_grad()
    def predict(self, x):
        return self.net(x.to(self.device)).squeeze(1).cpu()


class Ensemble:
    def __init__(self, config):
        names = [f"cuda:{i}" for i in config["gpus"]]
        self.members = [Member(s, n) for s, n in zip(config["members"], names)]

    def fit(self, x, y):
        return [m.fit(x, y) for m in self.members]

    def predict(self, x):
        all_ = torch.stack([m.predict(x) for m in self.members])
        return all_.mean(0), all_.std(0)


def main():
    torch.manual_seed(CONFIG["seed"])
    x = torch.randn(60, 7)
    y = x[:, 0] * x[:, 1] + 0.1 * torch.randn(60)
    model = Ensemble(CONFIG)
    for epoch in range(CONFIG["epochs"]):
        print(epoch, model.fit(x[:50], y[:50]))
    mean, spread = model.predict(x[50:])
    print("rmse", (mean - y[50:]).square().mean().sqrt().item(), "spread", spread.mean().item())


if __name__ == "__main__":
    main()
