# cause: cache-or-beam-state-on-wrong-device|generation-helper-on-wrong-device|tensor-created-on-wrong-device
# guilty: hyps.score (score or self.score)
# after: espnet/espnet#5612
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Hypotheses:
    tokens: torch.Tensor
    score: torch.Tensor


def start(beam, device):
    return Hypotheses(torch.zeros(beam, 1, dtype=torch.long, device=device), torch.zeros(beam))


def select(hyps, ids):
    return Hypotheses(hyps.tokens[ids], hyps.score[ids])


class Decoder(nn.Module):
    def __init__(self, words=20):
        super().__init__()
        self.table, self.rnn, self.out = nn.Embedding(words, 8), nn.GRU(8, 8, batch_first=True), nn.Linear(8, words)

    def forward(self, tokens):
        return self.out(self.rnn(self.table(tokens))[0][:, -1]).log_softmax(-1)


device = torch.device("cuda:0")
decoder = Decoder().to(device)
hyps = start(3, device)
with torch.no_grad():
    for _ in range(3):
        best, words = decoder(hyps.tokens).max(-1)
        keep = best.topk(2).indices.sort().values
        hyps = select(hyps, keep)
        hyps.tokens = torch.cat([hyps.tokens, words[keep, None]], 1)
print(hyps.tokens)
