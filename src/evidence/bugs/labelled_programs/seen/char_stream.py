# cause: input-not-on-embedding-device
# guilty: cur
import torch
from torch import nn

torch.manual_seed(1)


class Streamer(nn.Module):
    """Recurrent part on the first GPU, wide output layer on the second."""

    def __init__(self, vocab=64, dim=16):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim).to("cuda:0")
        self.rnn = nn.GRUCell(dim, dim).to("cuda:0")
        self.out = nn.Sequential(nn.Linear(dim, 128), nn.GELU(), nn.Linear(128, vocab)).to("cuda:1")

    def start_cache(self, n):
        return torch.zeros(n, self.rnn.hidden_size, device="cuda:0")

    def step(self, cur, cache):
        x = self.tok(cur)
        cache = self.rnn(x, cache)
        return self.out(cache.to("cuda:1")), cache


@torch.no_grad()
def continue_text(model, prefix, n_new):
    cache = model.start_cache(prefix.size(0))
    for i in range(prefix.size(1)):
        logits, cache = model.step(prefix[:, i], cache)
    made = []
    for _ in range(n_new):
        best = logits.argmax(dim=-1)
        made.append(best)
        logits, cache = model.step(best, cache)
    return torch.stack(made, dim=1)


prefix = torch.randint(0, 64, (2, 5)).to("cuda:0")
print(continue_text(Streamer().eval(), prefix, 6).tolist())
