# cause: loss-or-label-on-other-device
# guilty: weighted (loss, task losses, value)
# line: 44
# repair: in LossBoard.total bring every task loss to one device before adding (value.to(self.log_vars.device) once more after weighting, or weighted.to(total.device))
"""Multi-task training: shared trunk on card 0, one head per card, learned task weights."""
import torch
import torch.nn as nn
import torch.nn.functional as F

HEADS = {
    "segment": ("cuda:0", lambda c: nn.Conv2d(c, 5, 1), F.cross_entropy),
    "depth": ("cuda:1", lambda c: nn.Conv2d(c, 1, 1), F.l1_loss),
    "normal": ("cuda:1", lambda c: nn.Conv2d(c, 3, 1), F.mse_loss),
}


class MultiTaskNet(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.trunk = nn.Sequential(nn.Conv2d(3, width, 3, padding=1), nn.ReLU()).to("cuda:0")
        self.heads = nn.ModuleDict({n: make(width).to(d) for n, (d, make, _) in HEADS.items()})

    def forward(self, image):
        shared = self.trunk(image.to("cuda:0"))
        return {n: head(shared.to(head.weight.device)) for n, head in self.heads.items()}


class LossBoard(nn.Module):
    """Kendall's homoscedastic weights, one log variance per task, kept beside its head."""

    def __init__(self, heads):
        super().__init__()
        self.log_vars = nn.ParameterDict(
            {n: nn.Parameter(torch.zeros((), device=h.weight.device)) for n, h in heads.items()})

    def weigh(self, name, value):
        s = self.log_vars[name]
        return torch.exp(-s) * value + 0.5 * s

    def total(self, losses):
        total = None
        for name, value in losses.items():
            weighted = self.weigh(name, value)
            total = weighted if total is None else total + weighted
        return total


class Engine:
    def __init__(self):
        self.net = MultiTaskNet()
        self.board = LossBoard(self.net.heads)
        params = list(self.net.parameters()) + list(self.board.parameters())
        self.optimizer = torch.optim.Adam(params, lr=1e-3)

    def losses(self, outputs, targets):
        result = {}
        for name, out in outputs.items():
            criterion = HEADS[name][2]
            result[name] = criterion(out, targets[name].to(out.device))
        return result

    def step(self, image, targets):
        loss = self.board.total(self.losses(self.net(image), targets))
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


def fake_batch(n=2, size=16):
    targets = {"segment": torch.randint(0, 5, (n, size, size)),
               "depth": torch.rand(n, 1, size, size), "normal": torch.randn(n, 3, size, size)}
    return torch.rand(n, 3, size, size), targets


if __name__ == "__main__":
    torch.manual_seed(0)
    engine = Engine()
    for _ in range(3):
        print(engine.step(*fake_batch()))
