# cause: optimizer-state-on-other-device
# guilty: z (self.z[p], state z)
# line: 29
# repair: build the optimizer after the stages are placed: in Experiment.__init__ call self.place() before ScheduleFree(...) OR clone z lazily in the first step OR z = z.to(p.device) in step
"""Schedule-free SGD for a network cut into two stages."""
import torch
import torch.nn.functional as F
from torch import nn


class ScheduleFree(torch.optim.Optimizer):
    """Keeps z, the point of the base iterates; parameters hold the evaluation point y."""

    def __init__(self, params, lr=0.05, beta=0.9):
        super().__init__(params, {"lr": lr, "beta": beta})
        self.count = 0
        self.z = {p: p.detach().clone() for group in self.param_groups for p in group["params"]}
        self.x = {p: z.clone() for p, z in self.z.items()}

    @torch.no_grad()
    def step(self, closure=None):
        self.count += 1
        share = 1.0 / self.count
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                z, x = self.z[p], self.x[p]
                z.add_(p.grad, alpha=-group["lr"])
                x.lerp_(z, share)
                p.copy_(torch.lerp(z, x, group["beta"]))

    @torch.no_grad()
    def to_average(self):
        for p, x in self.x.items():
            p.copy_(x)


class Bottleneck(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv1d(channels, channels // 2, 1), nn.ReLU(),
            nn.Conv1d(channels // 2, channels, 3, padding=1))

    def forward(self, x):
        return F.relu(x + self.body(x))


class TwoStageNet(nn.Module):
    def __init__(self, channels=16, classes=3):
        super().__init__()
        self.front = nn.Sequential(nn.Conv1d(1, channels, 5, padding=2), Bottleneck(channels))
        self.back = nn.Sequential(Bottleneck(channels), nn.AdaptiveAvgPool1d(1), nn.Flatten(),
                                  nn.Linear(channels, classes))
        self.front_device = self.back_device = torch.device("cpu")

    def forward(self, x):
        x = self.front(x.to(self.front_device))
        return self.back(x.to(self.back_device))


class Experiment:
    def __init__(self, cards):
        self.cards = cards
        self.net = TwoStageNet()
        self.optimizer = ScheduleFree(self.net.parameters())
        self.place()

    def place(self):
        self.net.front.to(self.cards[0])
        self.net.back.to(self.cards[1])
        self.net.front_device = torch.device(self.cards[0])
        self.net.back_device = torch.device(self.cards[1])

    def batch(self, size):
        labels = torch.randint(0, 3, (size,))
        time = torch.linspace(0, 6.28, 40)
        x = torch.sin(time[None] * (labels[:, None] + 1)) + 0.1 * torch.randn(size, 40)
        return x.unsqueeze(1), labels

    def run(self, steps):
        for step in range(steps):
            x, labels = self.batch(12)
            out = self.net(x)
            loss = F.cross_entropy(out, labels.to(out.device))
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            print(step, loss.item())
        self.optimizer.to_average()


if __name__ == "__main__":
    torch.manual_seed(0)
    Experiment(["cuda:0", "cuda:1"]).run(4)
