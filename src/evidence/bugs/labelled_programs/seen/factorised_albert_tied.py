# cause: lm-head-or-tied-weight-split
# guilty: self.table (word_table, self.table.weight, table)
# line: 52
# repair: compute the scores on the embedding's card: h = self.back(h).to(self.table.weight.device) in MaskedHead.forward OR place the head's stage on the first card with the embedding OR untie (give MaskedHead its own weight on cuda:1)
"""Masked language model with shared layers and a small embedding, in two stages."""
import torch
import torch.nn.functional as F
from torch import nn


class SmallEmbedding(nn.Module):
    def __init__(self, vocab, small, width, length):
        super().__init__()
        self.words = nn.Embedding(vocab, small)
        self.places = nn.Embedding(length, small)
        self.widen = nn.Linear(small, width)

    def forward(self, ids):
        where = torch.arange(ids.shape[1], device=ids.device)
        return self.widen(self.words(ids) + self.places(where))


class SharedLayers(nn.Module):
    """One layer, applied several times."""

    def __init__(self, width, heads, repeat):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(width, heads, 2 * width, dropout=0.0, batch_first=True)
        self.repeat = repeat

    def forward(self, x):
        for _ in range(self.repeat):
            x = self.layer(x)
        return x


class MaskedHead(nn.Module):
    def __init__(self, width, small, table):
        super().__init__()
        self.dense = nn.Linear(width, width)
        self.norm = nn.LayerNorm(width)
        self.back = nn.Linear(width, small)
        self.bias = nn.Parameter(torch.zeros(table.num_embeddings))
        self.word_table = [table]  # in a list, so that the weight is not counted twice

    @property
    def table(self):
        return self.word_table[0]

    def forward(self, x):
        h = self.back(self.norm(F.gelu(self.dense(x))))
        return F.linear(h, self.table.weight, self.bias)


class StageBuilder:
    def __init__(self, vocab=90, small=12, width=32, heads=4, repeat=3, length=32):
        self.settings = dict(vocab=vocab, small=small, width=width, length=length)
        self.heads, self.repeat = heads, repeat

    def build(self, first, second):
        s = self.settings
        embedding = SmallEmbedding(s["vocab"], s["small"], s["width"], s["length"])
        head = MaskedHead(s["width"], s["small"], embedding.words)
        low = nn.Sequential(embedding, SharedLayers(s["width"], self.heads, self.repeat))
        high = nn.Sequential(SharedLayers(s["width"], self.heads, self.repeat), head)
        return TwoStages(low.to(first), high.to(second), first, second)


class TwoStages(nn.Module):
    def __init__(self, low, high, first, second):
        super().__init__()
        self.low, self.high = low, high
        self.first, self.second = torch.device(first), torch.device(second)

    def forward(self, ids):
        return self.high(self.low(ids.to(self.first)).to(self.second))


def mask_tokens(ids, mask_id=1, share=0.2):
    chosen = torch.rand(ids.shape) < share
    chosen[:, 0] = True
    labels = ids.masked_fill(~chosen, -100)
    return ids.masked_fill(chosen, mask_id), labels


if __name__ == "__main__":
    torch.manual_seed(0)
    model = StageBuilder().build("cuda:0", "cuda:1")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(3):
        ids, labels = mask_tokens(torch.randint(2, 90, (6, 24)))
        logits = model(ids)
        loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten().to(logits.device), ignore_index=-100)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item())
