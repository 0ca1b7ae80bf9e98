# cause: input-not-on-embedding-device
# guilty: sessions
import torch
from torch import nn


class Session2Vec(nn.Module):
    def __init__(self, items=120, d=24):
        super().__init__()
        self.items = nn.Embedding(items, d, padding_idx=0)
        self.gru = nn.GRU(d, d, batch_first=True)
        self.score = nn.Linear(d, items)

    def forward(self, sessions):
        h, _ = self.gru(self.items(sessions))
        return self.score(h[:, -1].to(self.score.weight.device))


def largest_last(model, gpus):
    """The big tables go on the emptier second card."""
    for child in model.children():
        big = sum(p.numel() for p in child.parameters()) > 2500
        child.to(gpus[1] if big else gpus[0])
    return model


class Recommender:
    def __init__(self, gpus=("cuda:0", "cuda:1")):
        self.gpus = gpus
        self.model = largest_last(Session2Vec(), gpus)
        self.opt = torch.optim.Adagrad(self.model.parameters(), 0.05)

    def batch(self, n=16, length=6):
        start = torch.randint(1, 60, (n, 1))
        s = start + torch.arange(length + 1)
        return s[:, :-1].to(self.gpus[0]), s[:, -1]

    def fit(self, steps):
        for _ in range(steps):
            x, y = self.batch()
            logits = self.model(x)
            loss = nn.functional.cross_entropy(logits, y.to(logits.device))
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
        return loss.item()

    @torch.no_grad()
    def recommend(self, session, k=3):
        return self.model(session[None].to(self.gpus[0])).topk(k).indices[0].tolist()


rec = Recommender()
print(rec.fit(5))
print(rec.recommend(torch.tensor([4, 5, 6, 7])))
