# cause: generation-helper-on-wrong-device|tensor-created-on-wrong-device
# guilty: self.penalty
"""Greedy decoding with a chain of logits processors (own little framework)."""
from typing import Callable, List

import torch
import torch.nn as nn

Processor = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


class Temperature:
    def __init__(self, t: float):
        self.t = t

    def __call__(self, ids, scores):
        return scores / self.t


class NoRepeat:
    """Forbids the token that came last."""

    def __call__(self, ids, scores):
        return scores.scatter(1, ids[:, -1:], float("-inf"))


class BanWords:
    def __init__(self, vocab: int, banned: List[int]):
        self.penalty = torch.zeros(vocab)
        self.penalty[banned] = float("-inf")

    def __call__(self, ids, scores):
        return scores + self.penalty


class LM(nn.Module):
    def __init__(self, vocab=24, d=20):
        super().__init__()
        self.e = nn.Embedding(vocab, d)
        self.f = nn.Sequential(nn.Linear(d, 2 * d), nn.GELU(), nn.Linear(2 * d, d))
        self.g = nn.Linear(d, vocab)

    def forward(self, ids):
        w = torch.softmax(torch.arange(ids.size(1), device=ids.device).float(), 0)
        h = (self.e(ids) * w[None, :, None]).sum(1)
        return self.g(h + self.f(h))


@torch.inference_mode()
def greedy(model: LM, ids: torch.Tensor, steps: int, processors: List[Processor]):
    for _ in range(steps):
        scores = model(ids)
        for p in processors:
            scores = p(ids, scores)
        nxt = scores.argmax(dim=-1, keepdim=True)
        ids = torch.cat([ids, nxt], dim=1)
    return ids


if __name__ == "__main__":
    torch.manual_seed(4)
    device = torch.device("cuda:1" if torch.cuda.device_count() > 1 else "cuda:0")
    lm = LM().to(device).eval()
    start = torch.tensor([[3, 5], [7, 1]], device=device)
    plain = greedy(lm, start, 4, [Temperature(0.7), NoRepeat()])
    print("free  ", plain.tolist())
    strict = greedy(lm, start, 4, [Temperature(0.7), NoRepeat(), BanWords(24, [0, 2, 9])])
    print("strict", strict.tolist())
