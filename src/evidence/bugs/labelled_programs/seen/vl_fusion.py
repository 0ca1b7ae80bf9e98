# cause: embedding-streams-on-different-devices
# guilty: self.text(ids)
import torch
import torch.nn as nn


class PatchStem(nn.Module):
    def __init__(self, dim, patch=8):
        super().__init__()
        self.proj = nn.Conv2d(3, dim, patch, patch)
        self.pos = nn.Parameter(torch.zeros(1, 16, dim))

    def forward(self, img):
        return self.proj(img).flatten(2).transpose(1, 2) + self.pos


class TextStem(nn.Module):
    def __init__(self, vocab, dim, max_len=32):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.pos = nn.Embedding(max_len, dim)

    def forward(self, ids):
        p = torch.arange(ids.size(1), device=ids.device)
        return self.tok(ids) + self.pos(p)


class Fusion(nn.Module):
    """Early fusion: [image tokens ; text tokens] through one encoder."""

    def __init__(self, dim=64, depth=4, vocab=100):
        super().__init__()
        self.image = PatchStem(dim)
        self.text = TextStem(vocab, dim)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(dim, 4, 2 * dim, batch_first=True) for _ in range(depth))
        self.head = nn.Linear(dim, vocab)

    def spread(self, first, second):
        self.image.to(first)
        self.text.to(second)
        for i, layer in enumerate(self.layers):
            layer.to(first if i < len(self.layers) // 2 else second)
        self.head.to(second)
        return self

    def forward(self, img, ids):
        img = img.to(self.image.pos.device)
        ids = ids.to(self.text.tok.weight.device)
        stream = torch.cat([self.image(img), self.text(ids)], dim=1)
        for layer in self.layers:
            stream = layer(stream.to(layer.linear1.weight.device))
        return self.head(stream[:, -ids.size(1):].to(self.head.weight.device))


def run_epoch(model, opt, steps=3):
    total = 0.0
    for _ in range(steps):
        img = torch.randn(4, 3, 32, 32)
        ids = torch.randint(0, 100, (4, 12))
        logits = model(img, ids[:, :-1])
        target = ids[:, 1:].to(logits.device)
        loss = nn.functional.cross_entropy(logits.reshape(-1, 100), target.reshape(-1))
        opt.zero_grad()
        loss.backward()
        opt.step()
        total += loss.item()
    return total / steps


model = Fusion().spread(torch.device("cuda:0"), torch.device("cuda:1"))
print(run_epoch(model, torch.optim.SGD(model.parameters(), 0.05)))
