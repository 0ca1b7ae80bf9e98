# cause: block-split-across-devices
# guilty: query (q or matrix)
import torch
import torch.nn as nn


class Encoder(nn.Module):
    def __init__(self, vocab=100, dim=16):
        super().__init__()
        self.bag = nn.EmbeddingBag(vocab, dim)

    def forward(self, ids):
        return nn.functional.normalize(self.bag(ids), dim=-1)


class Index:
    def __init__(self, encoder, device):
        self.encoder = encoder
        self.device = device
        self.rows = []

    def add(self, docs, chunk=8):
        with torch.no_grad():
            for i in range(0, len(docs), chunk):
                part = docs[i:i + chunk].to(next(self.encoder.parameters()).device)
                self.rows.append(self.encoder(part).to(self.device))

    def search(self, query, k=3):
        matrix = torch.cat(self.rows)
        score = query @ matrix.T
        return score.topk(k)


class Generator(nn.Module):
    def __init__(self, dim=16, vocab=100):
        super().__init__()
        self.net = nn.Linear(dim * 2, vocab)

    def forward(self, q, ctx):
        return self.net(torch.cat([q, ctx], -1)).argmax(-1)


if __name__ == "__main__":
    torch.manual_seed(0)
    enc = Encoder().to("cuda:0")
    gen = Generator().to("cuda:0")
    docs = torch.randint(0, 100, (20, 6))
    index = Index(enc, device="cuda:1")
    index.add(docs)
    question = torch.randint(0, 100, (2, 5)).to("cuda:0")
    q = enc(question)
    best = index.search(q)
    ctx = enc(docs[best.indices[:, 0].cpu()].to("cuda:0"))
    print(gen(q, ctx).tolist())
