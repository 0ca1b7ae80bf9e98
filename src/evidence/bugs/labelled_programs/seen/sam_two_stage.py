# cause: optimizer-state-on-other-device|block-split-across-devices|tensor-created-on-wrong-device
# guilty: norms (p.grad.norm(2))
"""Sharpness-aware minimisation of a two-stage network, one stage per GPU."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class SAM(torch.optim.Optimizer):
    def __init__(self, params, base_optimizer, rho=0.05, **kwargs):
        super().__init__(params, dict(rho=rho, **kwargs))
        self.base_optimizer = base_optimizer(self.param_groups, **kwargs)
        self.param_groups = self.base_optimizer.param_groups

    def grad_norm(self):
        norms = [p.grad.norm(2) for group in self.param_groups for p in group["params"] if p.grad is not None]
        return torch.norm(torch.stack(norms), p=2)

    @torch.no_grad()
    def first_step(self):
        norm = self.grad_norm()
        for group in self.param_groups:
            scale = group["rho"] / (norm + 1e-12)
            for p in group["params"]:
                if p.grad is None:
                    continue
                self.state[p]["old_p"] = p.data.clone()
                p.add_(p.grad * scale.to(p.device))
        self.zero_grad()

    @torch.no_grad()
    def second_step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.data.copy_(self.state[p]["old_p"])
        self.base_optimizer.step()
        self.zero_grad()


class TwoStageNet(nn.Module):
    def __init__(self, devices, dim=24, hidden=64, classes=6):
        super().__init__()
        self.devices = devices
        self.encoder = nn.Sequential(
            nn.Linear(dim, hidden), nn.LayerNorm(hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU()
        ).to(devices[0])
        self.decoder = nn.Sequential(
            nn.Linear(hidden, hidden), nn.LayerNorm(hidden), nn.ReLU(), nn.Linear(hidden, classes)
        ).to(devices[1])

    def forward(self, x):
        return self.decoder(self.encoder(x.to(self.devices[0])).to(self.devices[1]))


def smooth_cross_entropy(logits, target, smoothing=0.1):
    n = logits.size(-1)
    one_hot = torch.full_like(logits, smoothing / (n - 1))
    one_hot.scatter_(1, target.unsqueeze(1), 1.0 - smoothing)
    return -(one_hot * logits.log_softmax(-1)).sum(-1).mean()


def clusters(n, dim=24, classes=6):
    y = torch.randint(0, classes, (n,))
    return torch.randn(n, dim) + 2.0 * F.one_hot(y, dim).float(), y


def main():
    torch.manual_seed(0)
    devices = [torch.device("cuda:0"), torch.device("cuda:1")]
    model = TwoStageNet(devices)
    optimizer = SAM(model.parameters(), torch.optim.SGD, rho=0.05, lr=0.05, momentum=0.9)
    for step in range(4):
        x, y = clusters(64)
        y = y.to(devices[1])
        loss = smooth_cross_entropy(model(x), y)
        loss.backward()
        optimizer.first_step()
        smooth_cross_entropy(model(x), y).backward()
        optimizer.second_step()
        print(step, loss.item())


if __name__ == "__main__":
    main()
