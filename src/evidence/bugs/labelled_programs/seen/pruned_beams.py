# cause: cache-or-beam-state-on-wrong-device|generation-helper-on-wrong-device|tensor-created-on-wrong-device
# guilty: finished (self.finished or alive or ~finished)
# after: espnet/espnet#5612
import torch
from torch import nn


class Captioner(nn.Module):
    def __init__(self, words=12):
        super().__init__()
        self.table, self.cell, self.out = nn.Embedding(words, 8), nn.GRUCell(8, 8), nn.Linear(8, words)

    def step(self, word, state):
        state = self.cell(self.table(word), state)
        return self.out(state).log_softmax(-1), state


@torch.no_grad()
def search(model, state, beam, steps):
    state = state.repeat(beam, 1)
    word = torch.ones(beam, dtype=torch.long, device=state.device)
    score = torch.zeros(beam, device=state.device)
    finished = torch.zeros(beam, dtype=torch.bool)
    for _ in range(steps):
        logs, state = model.step(word, state)
        best, word = logs.max(-1)
        score = score + torch.where(finished, torch.zeros_like(best), best)
        finished = finished | (word == 0).cpu()
        order = score.argsort(descending=True)
        word, state, score = word[order], state[order], score[order]
    return word, score


model = Captioner().to("cuda:0").eval()
print(search(model, torch.randn(1, 8, device="cuda:0"), 3, 4))
