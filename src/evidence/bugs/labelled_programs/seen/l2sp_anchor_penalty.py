# cause: optimizer-state-on-other-device|hard-coded-device|checkpoint-map-location
# guilty: self.anchor[name] (anchor, start)
# line: 32
# repair: in L2SP.from_checkpoint move each tensor to its parameter: anchor = {n: saved[n].to(p.device) for n, p in model.named_parameters()} (map_location="cpu") OR in L2SP.penalty: self.anchor[name].to(p.device)
"""Transfer learning with an L2-SP penalty towards the pretrained weights."""
import os
import tempfile

import torch
import torch.nn as nn
import torch.nn.functional as F

REGULARISERS = {}


class L2SP:
    """Pulls the weights towards the starting point, new layers towards zero."""

    def __init__(self, anchor, alpha=0.1, beta=0.01):
        self.anchor, self.alpha, self.beta = anchor, alpha, beta

    @classmethod
    def from_checkpoint(cls, path, model, **options):
        saved = torch.load(path, map_location="cuda:0")
        anchor = {n: saved[n] for n, _ in model.named_parameters() if n in saved}
        return cls(anchor, **options)

    def penalty(self, model):
        terms = []
        for name, p in model.named_parameters():
            if name in self.anchor:
                terms.append(self.alpha * (p - self.anchor[name]).pow(2).sum())
            else:
                terms.append(self.beta * p.pow(2).sum())
        return sum(t.to("cuda:1") for t in terms)


REGULARISERS["l2sp"] = L2SP.from_checkpoint


class Tagger(nn.Module):
    def __init__(self, tags=4, vocab=150, dim=24):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.lower = nn.GRU(dim, dim, batch_first=True)
        self.upper = nn.GRU(dim, dim, batch_first=True)
        self.tagger = nn.Linear(dim, tags)

    def parallelize(self, first="cuda:0", second="cuda:1"):
        self.first, self.second = first, second
        self.embed.to(first)
        self.lower.to(first)
        self.upper.to(second)
        self.tagger.to(second)
        return self

    def forward(self, ids):
        x, _ = self.lower(self.embed(ids.to(self.first)))
        x, _ = self.upper(x.to(self.second))
        return self.tagger(x)


def pretrain(path):
    model = Tagger(tags=9)
    state = {k: v for k, v in model.state_dict().items() if not k.startswith("tagger")}
    torch.save(state, path)


def finetune(path, steps=3, regulariser="l2sp"):
    model = Tagger()
    model.load_state_dict(torch.load(path, map_location="cpu"), strict=False)
    model.parallelize()
    penalty = REGULARISERS[regulariser](path, model, alpha=0.05)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(steps):
        ids, tags = torch.randint(0, 150, (4, 12)), torch.randint(0, 4, (4, 12))
        logits = model(ids)
        loss = F.cross_entropy(logits.flatten(0, 1), tags.flatten().to(logits.device))
        loss = loss + penalty.penalty(model)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(step, loss.item())


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "base.pt")
        pretrain(file)
        finetune(file)
