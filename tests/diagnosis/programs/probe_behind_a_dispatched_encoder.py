# cause: module-left-on-other-device|lm-head-or-tied-weight-split
# guilty: self.probe (found)
"""Tagging: an encoder is spread over two GPUs; the tagger's own layer is where the last block is."""
import torch
from accelerate import dispatch_model
from torch import nn


class Encoder(nn.Module):
    def __init__(self, words=30, width=8):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.blocks = nn.ModuleList(nn.TransformerEncoderLayer(width, 2, 16, batch_first=True) for _ in range(4))
        self.norm = nn.LayerNorm(width)

    def forward(self, ids):
        states = self.words(ids)
        for block in self.blocks:
            states = block(states)
        return self.norm(states)


def spread(encoder):
    places = {"words": 0, "norm": 1}
    places |= {f"blocks.{n}": n // 2 for n in range(4)}
    return dispatch_model(encoder, places)


class Tagger(nn.Module):
    def __init__(self, encoder, tags=5):
        super().__init__()
        self.encoder = encoder
        self.probe = nn.Linear(8, tags)
        self.probe.to(encoder.norm.weight.device)

    def tag(self, ids):
        with torch.no_grad():
            found = self.encoder(ids)[:, 1:]
            return self.probe(found).argmax(-1)


tagger = Tagger(spread(Encoder().eval()))
print(tagger.tag(torch.randint(0, 30, (2, 6), device="cuda:0")).shape)
