# cause: device-ordinal-out-of-range
# guilty: self.device
import torch
import torch.nn as nn


class Policy(nn.Module):
    def __init__(self, obs=4, act=2):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(obs, 16), nn.Tanh(), nn.Linear(16, act))

    def forward(self, x):
        return self.body(x).argmax(-1)


class Island:
    """One sub-population living on one GPU."""

    def __init__(self, ident, size, sigma=0.1):
        self.ident = ident
        self.device = torch.device(f"cuda:{ident}")
        self.sigma = sigma
        self.pop = [Policy().to(self.device) for _ in range(size)]

    @torch.no_grad()
    def fitness(self, policy, episodes=32, horizon=10):
        x = torch.randn(episodes, 4, device=self.device)
        score = torch.zeros(episodes, device=self.device)
        for _ in range(horizon):
            push = policy(x).float() * 2 - 1
            x = 0.95 * x + 0.1 * push[:, None]
            score -= x.pow(2).mean(-1)
        return score.mean().item()

    @torch.no_grad()
    def generation(self):
        ranked = sorted(self.pop, key=self.fitness, reverse=True)
        keep = ranked[: len(ranked) // 2]
        for parent, child in zip(keep, ranked[len(ranked) // 2:]):
            for a, b in zip(parent.parameters(), child.parameters()):
                b.copy_(a + self.sigma * torch.randn_like(a))
        self.pop = ranked
        return keep[0]

    def receive(self, migrant):
        self.pop[-1].load_state_dict(migrant.state_dict())


class Archipelago:
    def __init__(self, n_islands, size=6):
        self.islands = {i: Island(i, size) for i in range(1, n_islands + 1)}

    def evolve(self, rounds):
        for r in range(rounds):
            best = {i: isl.generation() for i, isl in self.islands.items()}
            ids = sorted(best)
            for a, b in zip(ids, ids[1:] + ids[:1]):
                self.islands[b].receive(best[a])
            print("round", r, {i: round(isl.fitness(best[i]), 3) for i, isl in self.islands.items()})


if __name__ == "__main__":
    torch.manual_seed(0)
    Archipelago(torch.cuda.device_count()).evolve(3)
