# cause: cache-or-beam-state-on-wrong-device
# guilty: h (self.hidden, self.hidden.detach())
"""Truncated BPTT with a hidden state that survives from chunk to chunk."""
import torch
from torch import nn


class Elman(nn.Module):
    def __init__(self, vocab, width):
        super().__init__()
        self.emb = nn.Embedding(vocab, width)
        self.inp = nn.Linear(width, width)
        self.rec = nn.Linear(width, width, bias=False)
        self.out = nn.Linear(width, vocab)

    def forward(self, ids, h):
        ys = []
        for t in range(ids.size(1)):
            h = torch.tanh(self.inp(self.emb(ids[:, t])) + self.rec(h))
            ys.append(self.out(h))
        return torch.stack(ys, 1), h


class Trainer:
    def __init__(self, vocab=30, width=16, lanes=4):
        self.net = Elman(vocab, width)
        self.lanes, self.width = lanes, width
        self.hidden = None

    def on(self, device):
        self.device = torch.device(device)
        self.net.to(self.device)
        self.opt = torch.optim.SGD(self.net.parameters(), lr=0.5)
        return self

    def chunk(self, ids):
        ids = ids.to(self.device)
        if self.hidden is None:
            self.hidden = torch.zeros(self.lanes, self.width, device=self.device)
        logits, h = self.net(ids[:, :-1], self.hidden.detach())
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
        self.opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(self.net.parameters(), 0.5)
        self.opt.step()
        self.hidden = h
        return loss.item()


def stream(lanes, length, chunk):
    text = torch.randint(0, 30, (lanes, length))
    for i in range(0, length - chunk, chunk):
        yield text[:, i:i + chunk + 1]


def main():
    torch.manual_seed(0)
    trainer = Trainer().on("cuda:0")
    print("phase 1", [round(trainer.chunk(c), 3) for c in stream(4, 40, 8)])
    trainer.on("cuda:1")          # the first card is needed for evaluation from here on
    print("phase 2", [round(trainer.chunk(c), 3) for c in stream(4, 40, 8)])


main()
