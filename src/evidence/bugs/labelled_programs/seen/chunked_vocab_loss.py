# cause: lm-head-or-tied-weight-split
# guilty: weight (self.words.weight)
# line: 59
# repair: in chunked_nll bring the hidden states to the shared weight: hidden, labels = hidden.to(weight.device), labels.to(weight.device) OR place the last layers and final norm with the shared embedding on one card
"""Pre-train a code model with a tied output matrix; the vocabulary loss runs in chunks to save memory."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint


class ShiftMixBlock(nn.Module):
    """Mix each position with its predecessor, then a gated feed-forward."""

    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.blend = nn.Parameter(torch.full((dim,), 0.5))
        self.inp, self.out = nn.Linear(dim, 4 * dim), nn.Linear(2 * dim, dim)

    def forward(self, x):
        h = self.norm(x)
        before = F.pad(h, (0, 0, 1, 0))[:, :-1]
        a, b = self.inp(torch.lerp(h, before, self.blend)).chunk(2, -1)
        return x + self.out(F.silu(a) * b)


class CodeModel(nn.Module):
    def __init__(self, vocab=512, dim=32, depth=6):
        super().__init__()
        self.words = nn.Embedding(vocab, dim)
        self.blocks = nn.ModuleList(ShiftMixBlock(dim) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)

    @property
    def output_weight(self):
        return self.words.weight

    def hidden_states(self, ids):
        x = self.words(ids)
        for block in self.blocks:
            x = block(x.to(block.blend.device))
        return self.norm(x.to(self.norm.weight.device))


def spread_by_size(model, cards):
    """Fill the cards in order with equal shares of the weights."""
    parts = [model.words, *model.blocks, model.norm]
    sizes = [sum(p.numel() for p in part.parameters()) for part in parts]
    share, used = sum(sizes) / len(cards), 0
    for part, size in zip(parts, sizes):
        index = min(int((used + size / 2) / share), len(cards) - 1)
        part.to(cards[index])
        used += size
    return model


def chunk_nll(hidden, weight, labels):
    logits = hidden @ weight.T
    return F.cross_entropy(logits.float(), labels, ignore_index=-100, reduction="sum")


def chunked_nll(hidden, weight, labels, chunk=32):
    """Never holds more than `chunk` rows of logits, forwards or backwards."""
    hidden, labels = hidden.flatten(0, 1), labels.flatten().to(hidden.device)
    total = hidden.new_zeros(())
    for h, y in zip(hidden.split(chunk), labels.split(chunk)):
        total = total + checkpoint(chunk_nll, h, weight, y, use_reentrant=False)
    return total / (labels != -100).sum().clamp(min=1)


class SourceFiles:
    def __init__(self, vocab, batch=4, length=48, count=5):
        self.vocab, self.batch, self.length, self.count = vocab, batch, length, count

    def __iter__(self):
        g = torch.Generator().manual_seed(11)
        for _ in range(self.count):
            ids = torch.randint(0, self.vocab, (self.batch, self.length), generator=g)
            labels = ids.clone()
            labels[torch.rand(ids.shape, generator=g) < 0.1] = -100
            yield ids[:, :-1], labels[:, 1:]


def train(model, files, lr=1e-3):
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    for step, (ids, labels) in enumerate(files):
        ids = ids.to(model.words.weight.device)
        hidden = model.hidden_states(ids)
        loss = chunked_nll(hidden, model.output_weight, labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        print(step, round(loss.item(), 3))


def main():
    torch.manual_seed(0)
    model = spread_by_size(CodeModel(), ["cuda:0", "cuda:1"])
    for name, part in (("words", model.words), ("last block", model.blocks[-1]), ("norm", model.norm)):
        print(name, next(part.parameters()).device)
    train(model, SourceFiles(512))


if __name__ == "__main__":
    main()
