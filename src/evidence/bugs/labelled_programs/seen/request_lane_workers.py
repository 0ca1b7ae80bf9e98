# cause: input-not-on-embedding-device|hard-coded-device
# guilty: ids (batch, request.tokens, tokens)
# line: 27
# repair: keep the tokens on the host in Dispatcher.submit (no .to(self.workers[0].device)) and move the batch in Worker.run: batch = self.collate(requests).to(self.device)
"""A small serving queue with one model replica per card and work stealing."""
import copy
from collections import deque
from dataclasses import dataclass

import torch
import torch.nn as nn


@dataclass
class Request:
    uid: int
    tokens: torch.Tensor


class TextScorer(nn.Module):
    def __init__(self, vocab=90, dim=20):
        super().__init__()
        self.table = nn.EmbeddingBag(vocab, dim, mode="mean", padding_idx=0)
        self.out = nn.Linear(dim, 2)

    def forward(self, ids):
        return self.out(self.table(ids))


class Worker:
    def __init__(self, model, device, max_batch=3):
        self.device, self.max_batch = torch.device(device), max_batch
        self.model = copy.deepcopy(model).to(self.device).eval()
        self.queue = deque()

    def collate(self, requests):
        width = max(r.tokens.numel() for r in requests)
        rows = [torch.cat([r.tokens, r.tokens.new_zeros(width - r.tokens.numel())]) for r in requests]
        return torch.stack(rows)

    @torch.no_grad()
    def run(self):
        requests = [self.queue.popleft() for _ in range(min(self.max_batch, len(self.queue)))]
        batch = self.collate(requests)
        probs = self.model(batch).softmax(-1)
        return {r.uid: p[1].item() for r, p in zip(requests, probs)}


class Dispatcher:
    def __init__(self, workers):
        self.workers, self.next_uid = workers, 0

    def submit(self, tokens):
        ids = torch.tensor(tokens).to(self.workers[0].device)
        self.workers[0].queue.append(Request(self.next_uid, ids))
        self.next_uid += 1

    def balance(self):
        """Idle workers steal from the back of the longest queue."""
        for worker in self.workers:
            longest = max(self.workers, key=lambda w: len(w.queue))
            if not worker.queue and len(longest.queue) > worker.max_batch:
                for _ in range(len(longest.queue) // 2):
                    worker.queue.appendleft(longest.queue.pop())

    def drain(self):
        results = {}
        while any(w.queue for w in self.workers):
            self.balance()
            for worker in self.workers:
                if worker.queue:
                    results.update(worker.run())
        return results


if __name__ == "__main__":
    torch.manual_seed(0)
    scorer = TextScorer()
    dispatcher = Dispatcher([Worker(scorer, "cuda:0"), Worker(scorer, "cuda:1")])
    for i in range(8):
        dispatcher.submit(list(range(1, 3 + i)))
    print(dispatcher.drain())
