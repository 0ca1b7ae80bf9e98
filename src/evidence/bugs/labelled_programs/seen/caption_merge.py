# cause: embedding-streams-on-different-devices
# guilty: seen
import torch
from torch import nn

IMG = 3


class Vision(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.conv = nn.Conv2d(3, 24, 8, stride=8)
        self.up = nn.Linear(24, d)

    def forward(self, px):
        return self.up(self.conv(px).flatten(2).transpose(1, 2))


class Captioner(nn.Module):
    def __init__(self, vocab=64, d=32):
        super().__init__()
        self.vision = Vision(d).to("cuda:1")
        self.words = nn.Embedding(vocab, d).to("cuda:0")
        self.decoder = nn.GRU(d, d, batch_first=True).to("cuda:0")
        self.to_vocab = nn.Linear(d, vocab).to("cuda:0")

    def forward(self, ids, px):
        ids = ids.to("cuda:0")
        x = self.words(ids)
        seen = self.vision(px.to("cuda:1"))
        slots = (ids == IMG).unsqueeze(-1).expand_as(x)
        x = x.masked_scatter(slots, seen)
        out, _ = self.decoder(x)
        return self.to_vocab(out)


model = Captioner()
ids = torch.randint(4, 64, (2, 12))
ids[:, 2:6] = IMG
px = torch.rand(2, 3, 16, 16)
logits = model(ids, px)
nxt = logits[:, -1].argmax(-1)
print(nxt)
