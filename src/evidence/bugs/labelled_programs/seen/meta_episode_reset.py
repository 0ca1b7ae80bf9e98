# cause: module-left-on-other-device|weights-moved-away-by-manager
# guilty: self.front (its weight, self.front[0].weight)
# line: 23
# repair: in Episode.reset load the snapshot without assign=True (so it is copied into the parameters on their cards) OR take the snapshot on the cards (drop .cpu() in take_snapshot)
"""Few-shot sine fitting: a network is adapted for every task and set back afterwards."""
import torch
import torch.nn as nn


def make_net(width):
    return nn.Sequential(nn.Linear(1, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(),
                         nn.Linear(width, 1))


class TwoCardNet(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        net = make_net(width)
        self.front = net[:3].to("cuda:0")
        self.back = net[3:].to("cuda:1")

    def forward(self, x):
        h = self.front(x)
        return self.back(h.to("cuda:1"))


def take_snapshot(model):
    return {k: v.detach().clone().cpu() for k, v in model.state_dict().items()}


class Episode:
    """Adapts the network to one task and puts the meta weights back on leaving."""

    def __init__(self, model, lr=0.05):
        self.model = model
        self.lr = lr
        self.snapshot = take_snapshot(model)

    def reset(self):
        self.model.load_state_dict(self.snapshot, assign=True)
        for p in self.model.parameters():
            p.requires_grad_(True)

    def adapt(self, x, y, steps=3):
        opt = torch.optim.SGD(self.model.parameters(), lr=self.lr)
        for _ in range(steps):
            loss = ((self.model(x) - y) ** 2).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
        return loss.item()


def sample_task(rng):
    amp, phase = torch.rand(2, generator=rng)
    x = torch.rand(10, 1, generator=rng) * 10 - 5
    y = (amp + 0.1) * torch.sin(x + 3.14 * phase)
    return x.to("cuda:0"), y.to("cuda:1")


if __name__ == "__main__":
    rng = torch.Generator().manual_seed(0)
    model = TwoCardNet()
    episode = Episode(model)
    for task in range(3):
        x, y = sample_task(rng)
        print(task, round(episode.adapt(x, y), 4))
        episode.reset()
