# cause: lm-head-or-tied-weight-split
# guilty: token
import torch
from torch import nn


class GRULM(nn.Module):
    def __init__(self, vocab, dim):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.rnn1 = nn.Linear(2 * dim, dim)
        self.norm = nn.LayerNorm(dim)
        self.lm_head = nn.Linear(dim, vocab, bias=False)

    def to_cards(self):
        self.embed.to("cuda:0")
        self.rnn1.to("cuda:0")
        # the head is the largest matrix: give it the empty card
        self.norm.to("cuda:1")
        self.lm_head.to("cuda:1")
        return self

    def forward(self, ids):
        e = self.embed(ids)
        h = torch.zeros_like(e[:, 0])
        for t in range(e.size(1)):
            h = torch.tanh(self.rnn1(torch.cat([e[:, t], h], -1)))
        h = h.to(self.lm_head.weight.device)
        return self.lm_head(self.norm(h))


def top_p(logits, p):
    srt, order = logits.sort(descending=True)
    probs = srt.softmax(-1)
    probs[probs.cumsum(-1) - probs > p] = 0
    pick = torch.multinomial(probs, 1)
    return order.gather(-1, pick)


@torch.no_grad()
def write(model, ids, n, p=0.9):
    for _ in range(n):
        token = top_p(model(ids), p)
        ids = torch.cat([ids, token], dim=-1)
    return ids


torch.manual_seed(0)
model = GRULM(64, 24).to_cards().eval()
start = torch.tensor([[1, 5, 9], [2, 4, 8]], device="cuda:0")
print(write(model, start, 6).tolist())
