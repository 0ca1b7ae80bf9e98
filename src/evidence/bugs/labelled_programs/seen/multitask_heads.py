# cause: module-left-on-other-device
# guilty: head (self.heads or head.weight)
import torch
from torch import nn


class MultiTask(nn.Module):
    TASKS = {"age": 1, "sex": 2, "smoker": 2}

    def __init__(self, d_in=24, width=48):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(d_in, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.heads = {}
        for task, n in self.TASKS.items():
            self.heads[task] = nn.Linear(width, n)

    def forward(self, x):
        z = self.trunk(x)
        return {task: head(z) for task, head in self.heads.items()}


def compute_loss(pred, truth):
    total = nn.functional.mse_loss(pred["age"].squeeze(1), truth["age"])
    for k in ("sex", "smoker"):
        total = total + nn.functional.cross_entropy(pred[k], truth[k])
    return total


def fetch(n, device):
    x = torch.randn(n, 24, device=device)
    truth = {
        "age": torch.rand(n, device=device),
        "sex": torch.randint(0, 2, (n,), device=device),
        "smoker": torch.randint(0, 2, (n,), device=device),
    }
    return x, truth


def run(device):
    net = MultiTask()
    net.to(device)
    opt = torch.optim.RMSprop(net.parameters(), lr=1e-3)
    for step in range(5):
        x, truth = fetch(32, device)
        loss = compute_loss(net(x), truth)
        opt.zero_grad()
        loss.backward()
        opt.step()
    return loss.item()


print(run(torch.device("cuda:1" if torch.cuda.device_count() > 1 else "cuda:0")))
