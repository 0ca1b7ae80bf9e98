# cause: hard-coded-device|tensor-created-on-wrong-device
# guilty: slots
import torch
from torch import nn


def positions_in_expert(assign, n_experts):
    """For every token its rank among the tokens sent to the same expert."""
    hot = nn.functional.one_hot(assign, n_experts)
    rank = hot.cumsum(0) - 1
    return rank.gather(1, assign[:, None]).squeeze(1)


def build_slots(assign, n_experts, capacity):
    rank = positions_in_expert(assign, n_experts)
    ok = rank < capacity
    slots = torch.full((n_experts * capacity,), assign.numel(), dtype=torch.long, device="cuda:0")
    slots.scatter_(0, assign[ok] * capacity + rank[ok], ok.nonzero().squeeze(1))
    return slots.view(n_experts, capacity)


class CapacityMoE(nn.Module):
    def __init__(self, d, experts=4, factor=1.25):
        super().__init__()
        self.gate = nn.Linear(d, experts, bias=False)
        self.w1 = nn.Parameter(torch.randn(experts, d, 2 * d) / d ** 0.5)
        self.w2 = nn.Parameter(torch.randn(experts, 2 * d, d) / (2 * d) ** 0.5)
        self.factor = factor

    def forward(self, x):
        n, d = x.shape
        e = self.w1.size(0)
        p, assign = self.gate(x).softmax(-1).max(-1)
        slots = build_slots(assign, e, int(self.factor * n / e) + 1)
        padded = torch.cat([x, x.new_zeros(1, d)])
        h = torch.einsum("ecd,edh->ech", padded[slots], self.w1).relu()
        y = torch.einsum("ech,ehd->ecd", h, self.w2)
        out = x.new_zeros(n + 1, d).index_add(0, slots.flatten(), y.flatten(0, 1))[:n]
        return x + p[:, None] * out


def run(device, steps=3):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 32), CapacityMoE(32), CapacityMoE(32), nn.Linear(32, 1)).to(device)
    opt = torch.optim.Adam(net.parameters(), 1e-3)
    for _ in range(steps):
        x = torch.randn(64, 8, device=device)
        loss = (net(x).squeeze(-1) - x.norm(dim=-1)).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    return loss.item()


if __name__ == "__main__":
    gpus = torch.cuda.device_count()
    print(run(torch.device("cuda", gpus - 1) if gpus else torch.device("cpu")))
