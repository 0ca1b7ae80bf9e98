# cause: hard-coded-device|loss-or-label-on-other-device
# guilty: cont (cont.unsqueeze(-1) or request.target())
"""Small multiple-choice evaluation harness: pick the option with the highest log-likelihood."""
import argparse
from dataclasses import dataclass, field

import torch
import torch.nn as nn

VOCAB = 64


@dataclass
class Request:
    context: list
    continuation: list
    doc_id: int

    def tokens(self):
        return self.context + self.continuation

    def target(self):
        return torch.tensor(self.continuation, dtype=torch.long, device="cuda")


@dataclass
class Task:
    name: str
    docs: list = field(default_factory=list)

    @classmethod
    def synthetic(cls, name, n, options=3, seed=0):
        g = torch.Generator().manual_seed(seed)

        def sample(k):
            return torch.randint(1, VOCAB, (k,), generator=g).tolist()

        docs = [{"ctx": sample(8), "options": [sample(4) for _ in range(options)], "gold": i % options} for i in range(n)]
        return cls(name, docs)

    def requests(self):
        for i, doc in enumerate(self.docs):
            for option in doc["options"]:
                yield Request(doc["ctx"], option, i)

    def accuracy(self, scores):
        hits, cursor = 0, 0
        for doc in self.docs:
            block = scores[cursor : cursor + len(doc["options"])]
            hits += int(block.index(max(block)) == doc["gold"])
            cursor += len(block)
        return hits / len(self.docs)


class TinyLM(nn.Module):
    def __init__(self, vocab=VOCAB, dim=32):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.rnn = nn.GRU(dim, dim, batch_first=True)
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids):
        return self.head(self.rnn(self.embed(ids))[0])


class Harness:
    def __init__(self, model, device):
        self.device = torch.device(device)
        self.model = model.to(self.device).eval()

    @torch.no_grad()
    def loglikelihood(self, request):
        ids = torch.tensor([request.tokens()[:-1]], device=self.device)
        logits = self.model(ids)[0]
        n = len(request.continuation)
        logprobs = logits[-n:].float().log_softmax(-1)
        cont = request.target()
        picked = torch.gather(logprobs, 1, cont.unsqueeze(-1))
        return picked.sum().item()

    def run(self, task):
        scores = [self.loglikelihood(r) for r in task.requests()]
        return task.accuracy(scores)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda:1")
    parser.add_argument("--limit", type=int, default=6)
    args = parser.parse_args()
    harness = Harness(TinyLM(), args.device)
    for name in ("toy_arc", "toy_piqa"):
        print(name, harness.run(Task.synthetic(name, args.limit)))


if __name__ == "__main__":
    main()
