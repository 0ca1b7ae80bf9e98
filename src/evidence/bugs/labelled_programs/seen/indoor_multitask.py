# cause: loss-or-label-on-other-device
# guilty: value
"""Depth and surface normals from one trunk; the normals head has its own card."""
import torch
from torch import nn


class Indoor(nn.Module):
    def __init__(self, main, side, width=12):
        super().__init__()
        self.main, self.side = torch.device(main), torch.device(side)
        self.trunk = nn.Sequential(nn.Conv2d(3, width, 3, padding=1), nn.ReLU()).to(self.main)
        self.depth = nn.Conv2d(width, 1, 1).to(self.main)
        self.normals = nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.ReLU(),
                                     nn.Conv2d(width, 3, 1)).to(self.side)

    def forward(self, image):
        h = self.trunk(image.to(self.main))
        return {"depth": self.depth(h), "normals": self.normals(h.to(self.side))}


def depth_loss(pred, truth):
    d = pred.clamp(min=-3) - truth
    return d.pow(2).mean() - 0.5 * d.mean().pow(2)


def normals_loss(pred, truth):
    return (1 - nn.functional.cosine_similarity(pred, truth, dim=1)).mean()


class Objective:
    terms = {"depth": (depth_loss, 1.0), "normals": (normals_loss, 0.5)}

    def __init__(self):
        self.log = {name: [] for name in self.terms}

    def each(self, outputs, targets):
        for name, (fn, weight) in self.terms.items():
            pred = outputs[name]
            value = fn(pred, targets[name].to(pred.device))
            self.log[name].append(value.item())
            yield torch.tensor(weight) * value

    def __call__(self, outputs, targets):
        total = None
        for value in self.each(outputs, targets):
            total = value if total is None else total + value
        return total


def scenes(n):
    for _ in range(n):
        normals = nn.functional.normalize(torch.randn(2, 3, 12, 12), dim=1)
        yield torch.rand(2, 3, 12, 12), {"depth": torch.rand(2, 1, 12, 12), "normals": normals}


if __name__ == "__main__":
    torch.manual_seed(0)
    model, objective = Indoor("cuda:0", "cuda:1"), Objective()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    for image, targets in scenes(3):
        loss = objective(model(image), targets)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(objective.log)
