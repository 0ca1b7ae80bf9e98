# cause: hard-coded-device|generation-helper-on-wrong-device
# guilty: nxt
import torch
import torch.nn as nn


class TinyLM(nn.Module):
    def __init__(self, vocab=40, dim=24):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.gru = nn.GRU(dim, dim, batch_first=True)
        self.lm = nn.Linear(dim, vocab)

    def forward(self, ids):
        return self.lm(self.gru(self.emb(ids))[0])


def pick(logits, temperature, top_k):
    logits = logits / temperature
    cut = logits.topk(top_k, dim=-1).values[..., -1:]
    probs = logits.masked_fill(logits < cut, float("-inf")).softmax(-1)
    return torch.multinomial(probs.cpu(), 1)


@torch.no_grad()
def reply(model, prompt, limit=8, temperature=0.8, top_k=5, stop=0):
    ids = prompt
    for _ in range(limit):
        logits = model(ids)[:, -1]
        nxt = pick(logits, temperature, top_k)
        ids = torch.cat([ids, nxt], dim=1)
        if (nxt == stop).all():
            break
    return ids


if __name__ == "__main__":
    torch.manual_seed(5)
    lm = TinyLM().to("cuda:0").eval()
    turns = [[3, 9, 14], [8, 1, 22]]
    history = torch.tensor(turns, device="cuda:0")
    for turn in range(2):
        history = reply(lm, history)
        print(turn, history.tolist())
