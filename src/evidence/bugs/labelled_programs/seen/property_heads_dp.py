# cause: data-parallel-replica-device|module-left-on-other-device
# guilty: head (self._heads, head.weight, heads)
"""Predict several molecular properties; each property adds its own head from a registry."""
import torch
import torch.nn as nn
import torch.nn.functional as F

PROPERTIES = {"solubility": 1, "toxicity": 2, "charge": 3}


class Trunk(nn.Module):
    def __init__(self, fingerprint, dim):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(fingerprint, dim), nn.BatchNorm1d(dim), nn.ReLU(),
                                    nn.Linear(dim, dim), nn.ReLU())

    def forward(self, x):
        return self.layers(x)


class PropertyModel(nn.Module):
    def __init__(self, fingerprint, dim, properties):
        super().__init__()
        self.trunk = Trunk(fingerprint, dim)
        self._heads = {}
        for name, outputs in properties.items():
            self.add_property(name, dim, outputs)

    def add_property(self, name, dim, outputs):
        self._heads[name] = nn.Linear(dim, outputs)

    def to(self, *args, **kwargs):
        for head in self._heads.values():
            head.to(*args, **kwargs)
        return super().to(*args, **kwargs)

    def trainable(self):
        params = list(self.parameters())
        for head in self._heads.values():
            params += list(head.parameters())
        return params

    def forward(self, x):
        shared = self.trunk(x)
        return {name: head(shared) for name, head in self._heads.items()}


def losses(outputs, targets):
    total = 0.0
    for name, out in outputs.items():
        if out.shape[1] == 1:
            total = total + F.mse_loss(out.squeeze(1), targets[name].float())
        else:
            total = total + F.cross_entropy(out, targets[name])
    return total


class Runner:
    def __init__(self, device="cuda:0", gpus=(0, 1)):
        self.device = torch.device(device)
        model = PropertyModel(64, 32, PROPERTIES).to(self.device)
        self.optimizer = torch.optim.Adam(model.trainable(), lr=1e-3)
        self.model = nn.DataParallel(model, device_ids=list(gpus))

    def fit(self, batches):
        for step, (x, targets) in enumerate(batches):
            targets = {k: v.to(self.device) for k, v in targets.items()}
            loss = losses(self.model(x.to(self.device)), targets)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            print(step, float(loss.detach()))


def fake_batches(n, size=32):
    for _ in range(n):
        yield (torch.randint(0, 2, (size, 64)).float(),
               {name: torch.randint(0, max(k, 2), (size,)) for name, k in PROPERTIES.items()})


if __name__ == "__main__":
    torch.manual_seed(0)
    Runner().fit(fake_batches(3))
