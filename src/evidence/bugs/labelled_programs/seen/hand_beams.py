# cause: cache-or-beam-state-on-wrong-device
# guilty: parents
import torch
from torch import nn

torch.manual_seed(8)
VOCAB, DIM, WIDTH = 30, 12, 3
A, B = torch.device("cuda:0"), torch.device("cuda:1")


class Speller(nn.Module):
    def __init__(self):
        super().__init__()
        self.tok = nn.Embedding(VOCAB, DIM).to(A)
        self.rnn = nn.LSTM(DIM, DIM, num_layers=2, batch_first=True).to(A)
        self.head = nn.Linear(DIM, VOCAB).to(B)

    def forward(self, ids, past=None):
        seq, past = self.rnn(self.tok(ids), past)
        return self.head(seq[:, -1].to(B)).log_softmax(-1), past


@torch.no_grad()
def search(model, first, steps):
    n = first.size(0)
    logp, (h, c) = model(first.view(n, 1))
    total, token = logp.topk(WIDTH, dim=-1)
    text = token.view(n * WIDTH, 1).to(A)
    h, c = h.repeat_interleave(WIDTH, dim=1), c.repeat_interleave(WIDTH, dim=1)
    base = torch.arange(n, device=B).unsqueeze(1) * WIDTH

    for _ in range(steps):
        logp, (h, c) = model(text[:, -1:], (h, c))
        every = (total.view(-1, 1) + logp).view(n, WIDTH * VOCAB)
        total, flat = every.topk(WIDTH, dim=-1)
        parents = (base + flat // VOCAB).view(-1)
        token = (flat % VOCAB).view(-1, 1).to(A)
        h = h.index_select(1, parents)
        c = c.index_select(1, parents)
        text = torch.cat([text.index_select(0, parents), token], dim=1)
    return text.view(n, WIDTH, -1), total


words, scores = search(Speller().eval(), torch.tensor([2, 5], device=A), 4)
print(words[:, 0].tolist(), scores[:, 0].tolist())
