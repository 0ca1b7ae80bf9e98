# cause: tensor-created-on-wrong-device
# guilty: tab
import torch
from torch import nn

torch.manual_seed(5)


def slopes_table(n, heads, device):
    place = torch.arange(n, device=device)
    gap = (place[None, :] - place[:, None]).float()
    slope = torch.tensor([2.0 ** -(h + 1) for h in range(heads)], device=device)
    tab = slope[:, None, None] * gap
    return tab.masked_fill(gap > 0, float("-inf"))


class Block(nn.Module):
    def __init__(self, dim, heads, where):
        super().__init__()
        self.heads, self.where = heads, where
        self.norm, self.qkv, self.proj = nn.LayerNorm(dim), nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.to(where)

    def forward(self, x, tab):
        b, n, d = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        score = q @ k.transpose(-1, -2) / q.size(-1) ** 0.5
        score = score + tab
        return x + self.proj((score.softmax(-1) @ v).transpose(1, 2).reshape(b, n, d))


class Lm(nn.Module):
    def __init__(self, vocab=50, dim=16, heads=2):
        super().__init__()
        self.heads = heads
        self.tok = nn.Embedding(vocab, dim).to("cuda:0")
        self.blocks = nn.ModuleList(Block(dim, heads, f"cuda:{i // 2}") for i in range(4))
        self.head = nn.Linear(dim, vocab).to("cuda:1")

    def forward(self, ids):
        x = self.tok(ids)
        for block in self.blocks:
            x = x.to(block.where)
            x = block(x, slopes_table(ids.size(1), self.heads, device=ids.device))
        return self.head(x)


ids = torch.randint(0, 50, (2, 9), device="cuda:0")
with torch.no_grad():
    print(Lm()(ids).argmax(-1).tolist())
