# cause: numpy-of-gpu-tensor
# guilty: column (self.columns[name], columns)
# line: 22
# repair: in ScoreTable.add store values on the host: `values.detach().cpu()` OR use column.cpu().numpy() in to_arrays
"""Scores a validation set with a two-stage network and exports the table as arrays."""
import torch
import torch.nn as nn


class ScoreTable:
    def __init__(self):
        self.columns = {}

    def add(self, **values):
        for name, value in values.items():
            self.columns.setdefault(name, []).append(value.detach())

    def to_arrays(self):
        arrays = {}
        for name, chunks in self.columns.items():
            column = torch.cat(chunks)
            arrays[name] = column.numpy()
        return arrays


class StagedRisk(nn.Module):
    def __init__(self, features=14, hidden=20):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(features, hidden), nn.ReLU()).to("cuda:0")
        self.hazard = nn.Linear(hidden, 1).to("cuda:1")
        self.temperature = nn.Parameter(torch.ones(1, device="cuda:1"))

    def forward(self, x):
        h = self.encoder(x.to("cuda:0"))
        return (self.hazard(h.to("cuda:1")) / self.temperature).squeeze(-1)


def calibrate(model, batches, steps=5):
    opt = torch.optim.SGD([model.temperature], lr=0.1)
    for _ in range(steps):
        loss = sum(nn.functional.binary_cross_entropy_with_logits(model(b["x"]), b["y"].to("cuda:1"))
                   for b in batches)
        opt.zero_grad()
        loss.backward()
        opt.step()


def score(model, batches):
    table = ScoreTable()
    with torch.no_grad():
        for batch in batches:
            table.add(patient=batch["id"], label=batch["y"], risk=model(batch["x"]).sigmoid())
    return table


if __name__ == "__main__":
    torch.manual_seed(0)
    data = [{"id": torch.arange(i * 8, i * 8 + 8), "x": torch.randn(8, 14), "y": torch.rand(8).round()}
            for i in range(3)]
    net = StagedRisk()
    calibrate(net, data)
    arrays = score(net, data).to_arrays()
    print({k: (v.shape, float(v.mean())) for k, v in arrays.items()})
