# cause: input-not-on-embedding-device
# guilty: flat
"""Click-through model: dense part on the first card, the big embedding bag on the second."""
import torch
from torch import nn


def bags(n, rows=16):
    """Yield dense features, ragged item lists and clicks."""
    for _ in range(n):
        lengths = torch.randint(1, 6, (rows,))
        items = [torch.randint(0, 5000, (int(k),)) for k in lengths]
        yield torch.randn(rows, 7), items, torch.randint(0, 2, (rows,)).float()


def collate(items):
    flat = torch.cat(items)
    lengths = torch.tensor([len(i) for i in items])
    offsets = torch.cat([torch.zeros(1, dtype=torch.long), lengths.cumsum(0)[:-1]])
    return flat, offsets


class ClickModel(nn.Module):
    def __init__(self, dim=8):
        super().__init__()
        self.bottom = nn.Sequential(nn.Linear(7, 32), nn.ReLU(), nn.Linear(32, dim))
        self.history = nn.EmbeddingBag(5000, dim, mode="mean")
        self.top = nn.Sequential(nn.Linear(2 * dim, 16), nn.ReLU(), nn.Linear(16, 1))

    @property
    def device(self):
        return self.bottom[0].weight.device

    def spread(self, dense_device, table_device):
        self.bottom.to(dense_device)
        self.top.to(dense_device)
        self.history.to(table_device)
        return self

    def forward(self, dense, items):
        flat, offsets = (t.to(self.device) for t in collate(items))
        pooled = self.history(flat, offsets)
        both = torch.cat([self.bottom(dense.to(self.device)), pooled.to(self.device)], dim=1)
        return self.top(both).squeeze(-1)


def main():
    torch.manual_seed(0)
    model = ClickModel().spread("cuda:0", "cuda:1")
    opt = torch.optim.Adagrad(model.parameters(), lr=0.05)
    for dense, items, clicks in bags(4):
        logits = model(dense, items)
        loss = nn.functional.binary_cross_entropy_with_logits(logits, clicks.to(logits.device))
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(loss.item())


if __name__ == "__main__":
    main()
