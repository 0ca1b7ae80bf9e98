# cause: tensor-created-on-wrong-device|optimizer-state-on-other-device
# guilty: numerator (d_numerator, denominator, torch.dot(g, ...))
# line: 32
# repair: gather the sums of the step on one device explicitly: numerator.add_(torch.dot(...).to(numerator.device)) and the same for the denominator OR keep the two sums as Python numbers (.item()) or as 0-dim CPU tensors fed by .cpu() OR give every card its own parameter group
"""Road speed forecasting over two cards with a learning-rate-free optimiser of our own."""
import torch
from torch import nn


class DistanceAdaptive(torch.optim.Optimizer):
    """SGD whose step size is estimated from the distance travelled since the first step."""

    def __init__(self, params, d0=1e-4, lr=1.0, weight_decay=0.0):
        super().__init__(params, dict(d=d0, d0=d0, lr=lr, weight_decay=weight_decay, k=0))

    @torch.no_grad()
    def step(self, closure=None):
        loss = closure() if closure is not None else None
        for group in self.param_groups:
            d, lr = group["d"], group["lr"]
            anchor = group["params"][0]
            numerator = torch.zeros(1, device=anchor.device)
            denominator = torch.zeros(1, device=anchor.device)
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["origin"] = p.detach().clone()
                    state["s"] = torch.zeros_like(p)
                g = p.grad.flatten()
                numerator.add_(torch.dot(g, (state["origin"] - p).flatten()), alpha=d * lr)
                state["s"].add_(p.grad, alpha=d * lr)
                denominator.add_(state["s"].abs().sum())
            if float(denominator) > 0:
                group["d"] = max(d, float(numerator / denominator))
            for p in group["params"]:
                if p.grad is None:
                    continue
                if group["weight_decay"]:
                    p.mul_(1 - group["d"] * lr * group["weight_decay"])
                p.add_(p.grad, alpha=-group["d"] * lr)
            group["k"] += 1
        return loss


class SpeedForecaster(nn.Module):
    def __init__(self, sensors=20, hidden=32, horizon=6, cards=("cuda:0", "cuda:1")):
        super().__init__()
        self.cards = cards
        self.mix = nn.Linear(sensors, hidden).to(cards[0])
        self.encoder = nn.GRU(hidden, hidden, batch_first=True).to(cards[0])
        self.decoder = nn.GRU(hidden, hidden, batch_first=True).to(cards[1])
        self.out = nn.Linear(hidden, sensors).to(cards[1])
        self.horizon = horizon

    def forward(self, speeds):
        h, last = self.encoder(torch.relu(self.mix(speeds)))
        seed = h[:, -1:].expand(-1, self.horizon, -1).contiguous().to(self.cards[1])
        y, _ = self.decoder(seed, last.to(self.cards[1]))
        return self.out(y)


def synthetic_days(n, sensors=20, length=30, seed=0):
    g = torch.Generator().manual_seed(seed)
    phase = torch.rand(n, 1, sensors, generator=g) * 6.28
    t = torch.arange(length).view(1, -1, 1) / 5
    return torch.sin(t + phase) + 0.05 * torch.randn(n, length, sensors, generator=g)


def main():
    torch.manual_seed(0)
    model = SpeedForecaster()
    optimizer = DistanceAdaptive(model.parameters(), weight_decay=1e-4)
    days = synthetic_days(64)
    for epoch in range(3):
        for chunk in days[torch.randperm(len(days))].split(16):
            past = chunk[:, :24].to(model.cards[0])
            future = chunk[:, 24:].to(model.cards[1])
            loss = nn.functional.l1_loss(model(past), future)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} mae {loss.item():.3f} d {optimizer.param_groups[0]['d']:.2e}")


if __name__ == "__main__":
    main()
