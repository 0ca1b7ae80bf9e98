# cause: tensor-created-on-wrong-device
# guilty: cut (self.cuts[k] or boundaries)
import torch
import torch.nn as nn

SPEC = {"age": [18, 25, 35, 50, 65], "income": [10.0, 20.0, 40.0, 80.0]}


class Bucketed(nn.Module):
    def __init__(self, spec, dim=4):
        super().__init__()
        self.cuts = {k: torch.tensor(v, dtype=torch.float32) for k, v in spec.items()}
        self.emb = nn.ModuleDict({k: nn.Embedding(len(v) + 1, dim) for k, v in spec.items()})
        self.out = nn.Linear(dim * len(spec), 1)

    def forward(self, row):
        cols = []
        for k, cut in self.cuts.items():
            slot = torch.bucketize(row[k], cut)
            cols.append(self.emb[k](slot))
        return self.out(torch.cat(cols, -1)).squeeze(-1)


def sample(n, device):
    row = {"age": torch.rand(n) * 80, "income": torch.rand(n) * 100}
    y = (row["income"] > 30).float()
    return {k: v.to(device) for k, v in row.items()}, y.to(device)


if __name__ == "__main__":
    torch.manual_seed(0)
    device = torch.device("cuda:0")
    net = Bucketed(SPEC).to(device)
    opt = torch.optim.Adam(net.parameters(), 0.03)
    for _ in range(3):
        row, y = sample(32, device)
        loss = nn.functional.binary_cross_entropy_with_logits(net(row), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(loss.item())
