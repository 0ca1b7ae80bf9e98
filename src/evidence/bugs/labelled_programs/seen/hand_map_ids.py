# cause: input-not-on-embedding-device|hard-coded-device
# guilty: ids
"""Inference with a placement table: the small front card holds the last layers, the big one the first."""
import torch
import torch.nn as nn

PLACEMENT = {"embed": "cuda:1", "body.0": "cuda:1", "body.1": "cuda:1", "body.2": "cuda:0", "norm": "cuda:0", "cls": "cuda:0"}


class Body(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.att = nn.MultiheadAttention(d, 2, batch_first=True)
        self.ln = nn.LayerNorm(d)

    def forward(self, h, pad):
        y, _ = self.att(h, h, h, key_padding_mask=pad, need_weights=False)
        return self.ln(h + y)


class Sentiment(nn.Module):
    def __init__(self, vocab=60, d=16):
        super().__init__()
        self.embed = nn.Embedding(vocab, d, padding_idx=0)
        self.body = nn.ModuleList(Body(d) for _ in range(3))
        self.norm = nn.LayerNorm(d)
        self.cls = nn.Linear(d, 2)

    def place(self, table):
        for name, dev in table.items():
            self.get_submodule(name).to(dev)
        self.table = table
        return self

    def forward(self, ids, pad):
        h = self.embed(ids)
        for i, b in enumerate(self.body):
            dev = self.table[f"body.{i}"]
            h = b(h.to(dev), pad.to(dev))
        h = h.to(self.table["norm"])
        keep = (~pad).to(h.device).unsqueeze(-1)
        pooled = (self.norm(h) * keep).sum(1) / keep.sum(1)
        return self.cls(pooled)


WORDS = {w: i + 1 for i, w in enumerate("the film was good bad not very a plot acting".split())}


def encode(texts):
    rows = [[WORDS.get(w, 0) for w in t.split()] for t in texts]
    width = max(map(len, rows))
    return torch.tensor([r + [0] * (width - len(r)) for r in rows])


@torch.inference_mode()
def classify(model, texts):
    ids = encode(texts)
    pad = ids == 0
    ids = ids.to("cuda:0")
    return model(ids, pad).softmax(-1)[:, 1].tolist()


if __name__ == "__main__":
    torch.manual_seed(0)
    net = Sentiment().place(PLACEMENT).eval()
    print(classify(net, ["the film was very good", "the plot was not good", "bad acting"]))
