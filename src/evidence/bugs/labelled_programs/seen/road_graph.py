# cause: extra-input-on-wrong-device
# guilty: weight[:, None]
"""Traffic speed imputation on a road network with weighted message passing."""
from dataclasses import dataclass, replace

import torch
from torch import nn


@dataclass
class RoadGraph:
    speed: torch.Tensor
    edges: torch.Tensor
    length: torch.Tensor
    observed: torch.Tensor

    def to(self, device):
        return replace(
            self,
            speed=self.speed.to(device),
            edges=self.edges.to(device),
            observed=self.observed.to(device),
        )

    @property
    def affinity(self):
        scale = self.length.std()
        return torch.exp(-((self.length / scale) ** 2))


class WeightedConv(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.own = nn.Linear(cin, cout)
        self.other = nn.Linear(cin, cout, bias=False)

    def forward(self, x, edges, weight):
        src, dst = edges
        messages = self.other(x)[src]
        pooled = torch.zeros(x.size(0), messages.size(1), device=x.device)
        pooled.index_add_(0, dst, messages * weight[:, None])
        return self.own(x) + pooled


class Imputer(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.convs = nn.ModuleList([WeightedConv(2, width), WeightedConv(width, width)])
        self.out = nn.Linear(width, 1)

    def forward(self, graph):
        seen = graph.observed.float()
        x = torch.stack([graph.speed * seen, seen], dim=-1)
        for conv in self.convs:
            x = torch.relu(conv(x, graph.edges, graph.affinity))
        return self.out(x).squeeze(-1)


def synthetic(nodes=40, edges=120):
    return RoadGraph(
        speed=torch.rand(nodes) * 50,
        edges=torch.randint(0, nodes, (2, edges)),
        length=torch.rand(edges) * 3 + 0.1,
        observed=torch.rand(nodes) < 0.7,
    )


if __name__ == "__main__":
    torch.manual_seed(0)
    device = torch.device("cuda:1")
    graph, model = synthetic().to(device), Imputer().to(device)
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(5):
        guess = model(graph)
        hidden = ~graph.observed
        loss = (guess[hidden] - graph.speed[hidden]).abs().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    print("mae", loss.item())
