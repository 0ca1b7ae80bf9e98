# cause: generator-or-default-device|generator-on-other-device
# guilty: ?
"""Reproducible sampling from a tiny language model."""
import torch
from torch import nn


class Sampler:
    def __init__(self, temperature=1.0, top_k=0, seed=None):
        self.temperature, self.top_k = temperature, top_k
        self.rng = torch.Generator()
        if seed is not None:
            self.rng.manual_seed(seed)

    def __call__(self, logits):
        logits = logits / self.temperature
        if self.top_k:
            kth = logits.topk(self.top_k).values[..., -1:]
            logits = logits.masked_fill(logits < kth, float("-inf"))
        return torch.multinomial(logits.softmax(-1), 1, generator=self.rng)


class LM(nn.Module):
    def __init__(self, vocab=80, d=48):
        super().__init__()
        self.e, self.r, self.o = nn.Embedding(vocab, d), nn.GRU(d, d, batch_first=True), nn.Linear(d, vocab)

    def forward(self, ids, h=None):
        y, h = self.r(self.e(ids), h)
        return self.o(y), h


@torch.no_grad()
def write(model, prompt, sampler, n):
    ids, h = prompt, None
    logits, h = model(ids, h)
    for _ in range(n):
        nxt = sampler(logits[:, -1])
        ids = torch.cat([ids, nxt], 1)
        logits, h = model(nxt, h)
    return ids


if __name__ == "__main__":
    dev = torch.device("cuda")
    lm = LM().to(dev).eval()
    print(write(lm, torch.tensor([[5, 9, 2]], device=dev), Sampler(0.8, 20, seed=7), 6))
