# cause: generator-or-default-device
# guilty: self.streams[0] (generator, stream)
# line: 60
# repair: draw the acceptance number on the device of the stream: torch.rand((), device=self.cards[0], generator=self.streams[0]) OR keep a separate CPU generator for the exchange step and pass that one OR draw it without a generator
"""Replica exchange Langevin sampling of a small chain molecule; hot replicas on one card, cold ones on the other."""
import math

import torch


def chain_energy(x, length=1.0, stiffness=20.0):
    """Springs along the chain and a soft repulsion between all beads. x: (replicas, beads, 3)"""
    bond = (x[:, 1:] - x[:, :-1]).norm(dim=-1)
    springs = stiffness * (bond - length).pow(2).sum(-1)
    gap = torch.cdist(x, x) + 10 * torch.eye(x.size(1), device=x.device)
    return springs + 0.5 * torch.exp(-gap.pow(2)).sum((-1, -2))


def force(x):
    x = x.detach().requires_grad_(True)
    grad, = torch.autograd.grad(chain_energy(x).sum(), x)
    return -grad


class ReplicaExchange:
    def __init__(self, temperatures, beads, cards, seed=0, step=2e-3):
        self.cards = [torch.device(c) for c in cards]
        self.temperatures = temperatures
        self.step_size = step
        self.streams = [torch.Generator(device=card).manual_seed(seed + i) for i, card in enumerate(self.cards)]
        share = len(temperatures) // len(cards)
        self.groups = [temperatures[i * share : (i + 1) * share] for i in range(len(cards))]
        self.kt = [torch.tensor(g, device=c).view(-1, 1, 1) for g, c in zip(self.groups, self.cards)]
        line = torch.arange(beads, dtype=torch.float).view(1, -1, 1) * torch.tensor([1.0, 0.0, 0.0])
        self.state = [
            line.to(card) + 0.05 * torch.randn(len(g), beads, 3, device=card, generator=stream)
            for g, card, stream in zip(self.groups, self.cards, self.streams)
        ]
        self.accepted = self.tried = 0

    def drift(self, steps):
        for i, stream in enumerate(self.streams):
            x = self.state[i]
            for _ in range(steps):
                noise = torch.randn(x.shape, device=x.device, generator=stream)
                x = x + self.step_size * force(x) + (2 * self.step_size * self.kt[i]).sqrt() * noise
            self.state[i] = x.detach()

    def locate(self, rank):
        share = len(self.groups[0])
        return rank // share, rank % share

    def exchange(self, low):
        """Metropolis test between the neighbours `low` and `low + 1`, which may sit on different cards."""
        (ga, ia), (gb, ib) = self.locate(low), self.locate(low + 1)
        a, b = self.state[ga][ia], self.state[gb][ib]
        ea, eb = chain_energy(a[None]).item(), chain_energy(b[None]).item()
        gain = (1 / self.temperatures[low] - 1 / self.temperatures[low + 1]) * (ea - eb)
        self.tried += 1
        if torch.rand((), generator=self.streams[0]).item() < math.exp(min(0.0, gain)):
            swap = a.clone()
            self.state[ga][ia] = b.to(self.cards[ga])
            self.state[gb][ib] = swap.to(self.cards[gb])
            self.accepted += 1

    def observe(self):
        spans = []
        for x in self.state:
            spans += (x[:, -1] - x[:, 0]).norm(dim=-1).tolist()
        return spans

    def run(self, rounds, steps):
        for r in range(rounds):
            self.drift(steps)
            for low in range(r % 2, len(self.temperatures) - 1, 2):
                self.exchange(low)
            print(r, [round(s, 2) for s in self.observe()], f"accepted {self.accepted}/{self.tried}")


def main():
    temperatures = [0.5 * 1.4**k for k in range(6)]
    sampler = ReplicaExchange(temperatures, beads=12, cards=["cuda:0", "cuda:1"])
    sampler.run(rounds=4, steps=25)


if __name__ == "__main__":
    main()
