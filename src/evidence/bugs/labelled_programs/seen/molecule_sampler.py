# cause: hard-coded-device|cache-or-beam-state-on-wrong-device|tensor-created-on-wrong-device
# guilty: state (hidden)
# after: rociomer/dl-chem-101#10
import torch
from torch import nn


def get_device():
    return "cuda" if torch.cuda.is_available() else "cpu"


class SmilesRNN(nn.Module):
    def __init__(self, words=16, width=12):
        super().__init__()
        self.width = width
        self.table = nn.Embedding(words, width)
        self.cell = nn.GRUCell(width, width)
        self.out = nn.Linear(width, words)

    def forward(self, tokens, state=None):
        if state is None:
            state = torch.zeros(tokens.shape[0], self.width).to(get_device())
        state = self.cell(self.table(tokens), state)
        return self.out(state), state


def sample(model, count, steps):
    tokens = torch.zeros(count, dtype=torch.long, device=next(model.parameters()).device)
    state, found = None, []
    for _ in range(steps):
        logits, state = model(tokens, state)
        tokens = torch.multinomial(logits.softmax(-1), 1)[:, 0]
        found.append(tokens)
    return torch.stack(found, 1)


model = SmilesRNN().to("cuda:1").eval()
with torch.no_grad():
    print(sample(model, 4, 5))
