# cause: data-parallel-replica-device
# guilty: ?
"""Two-tower retrieval: towers on separate cards, a generic fit() helper for all projects."""
import torch
from torch import nn


class TwoTower(nn.Module):
    def __init__(self, users=200, items=300, dim=16):
        super().__init__()
        self.user = nn.Sequential(nn.Embedding(users, dim), nn.Linear(dim, dim)).to("cuda:0")
        self.item = nn.Sequential(nn.Embedding(items, dim), nn.Linear(dim, dim)).to("cuda:1")
        self.temperature = nn.Parameter(torch.tensor(0.1, device="cuda:0"))

    def forward(self, user_ids, item_ids):
        u = self.user(user_ids.to("cuda:0"))
        v = self.item(item_ids.to("cuda:1")).to(u.device)
        return (u * v).sum(-1) / self.temperature


class Fitter:
    """Project-wide training loop."""

    def __init__(self, model, lr=1e-2, gpus=(0, 1)):
        self.model = model
        self.parallel = nn.DataParallel(model, device_ids=list(gpus)) if len(gpus) > 1 else model
        self.optimizer = torch.optim.Adam(model.parameters(), lr=lr)
        self.history = []

    def step(self, inputs, target):
        scores = self.parallel(*inputs)
        loss = nn.functional.binary_cross_entropy_with_logits(scores, target.to(scores.device))
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        self.history.append(loss.detach().cpu())
        return self

    def fit(self, batches):
        for inputs, target in batches:
            self.step(inputs, target)
        return torch.stack(self.history)


def clicks(n, batch=32):
    gen = torch.Generator().manual_seed(0)
    for _ in range(n):
        users = torch.randint(0, 200, (batch,), generator=gen)
        items = torch.randint(0, 300, (batch,), generator=gen)
        yield (users, items), ((users + items) % 2).float()


if __name__ == "__main__":
    torch.manual_seed(0)
    curve = Fitter(TwoTower()).fit(clicks(5))
    print(curve)
