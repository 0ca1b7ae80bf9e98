# cause: embedding-streams-on-different-devices|tensor-created-on-wrong-device|device-map-incomplete-or-wrong
# guilty: newline (self.newline, self.newline.expand)
# line: 44
# repair: in TileVLM.pack use self.newline.to(rows.device) OR in the map place projector on the model's main card cuda:0, where a parameter owned by the top module lies
"""A tiny picture-language model: tile features are laid out in rows with a learnt line break."""
import torch
from torch import nn
from accelerate import dispatch_model


class Tower(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.patch = nn.Conv2d(3, dim, 8, 8)

    def forward(self, pixels):
        return self.patch(pixels).permute(0, 2, 3, 1)


class Writer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.attn = nn.MultiheadAttention(dim, 4, batch_first=True)

    def forward(self, h):
        n = self.norm(h)
        return h + self.attn(n, n, n, need_weights=False)[0]


class TileVLM(nn.Module):
    def __init__(self, vocab=100, dim=32):
        super().__init__()
        self.newline = nn.Parameter(torch.randn(dim) * 0.02)
        self.embed = nn.Embedding(vocab, dim)
        self.tower = Tower(dim)
        self.projector = nn.Linear(dim, dim)
        self.writers = nn.ModuleList([Writer(dim) for _ in range(3)])
        self.head = nn.Linear(dim, vocab)

    def pack(self, rows):
        b, h, w, d = rows.shape
        newline = self.newline.expand(b, h, 1, d)
        return torch.cat([rows, newline], dim=2).flatten(1, 2)

    def forward(self, ids, pixels):
        picture = self.pack(self.projector(self.tower(pixels)))
        words = self.embed(ids)
        h = torch.cat([picture.to(words.device), words], dim=1)
        for writer in self.writers:
            h = writer(h)
        return self.head(h[:, -ids.shape[1]:])


PLAN = {"newline": "cuda:0", "embed": "cuda:0", "tower": "cuda:1", "projector": "cuda:1", "writers.0": "cuda:0",
        "writers.1": "cuda:0", "writers.2": "cuda:1", "head": "cuda:1"}


@torch.no_grad()
def caption(model, pixels, steps=4):
    ids = torch.ones(pixels.shape[0], 1, dtype=torch.long, device="cuda:0")
    for _ in range(steps):
        nxt = model(ids, pixels)[:, -1:].argmax(-1)
        ids = torch.cat([ids, nxt.to(ids.device)], dim=1)
    return ids.tolist()


if __name__ == "__main__":
    torch.manual_seed(0)
    model = dispatch_model(TileVLM().eval(), device_map=PLAN)
    print(caption(model, torch.randn(2, 3, 24, 24, device="cuda:0")))
