# cause: lm-head-or-tied-weight-split
# guilty: self.words.weight
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(25)


class Writer(nn.Module):
    """Two pipeline stages; input and output share the word matrix."""

    def __init__(self, vocab=70, dim=16, limit=20):
        super().__init__()
        self.words, self.place = nn.Embedding(vocab, dim), nn.Embedding(limit, dim)

        def layer():
            return nn.TransformerEncoderLayer(dim, 2, 32, dropout=0.0, batch_first=True, norm_first=True)

        self.one, self.two = layer(), layer()
        self.norm = nn.LayerNorm(dim)

    def spread(self, first, second):
        self.first, self.second = first, second
        for part in (self.words, self.place, self.one):
            part.to(first)
        for part in (self.two, self.norm):
            part.to(second)
        return self

    def forward(self, ids):
        n = ids.size(1)
        shut = torch.ones(n, n, dtype=torch.bool, device=self.first).triu(1)
        x = self.words(ids) + self.place(torch.arange(n, device=self.first))
        x = self.one(x, src_mask=shut).to(self.second)
        x = self.norm(self.two(x, src_mask=shut.to(self.second)))
        return F.linear(x, self.words.weight)


model = Writer().spread("cuda:0", "cuda:1")
opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
text = torch.randint(0, 70, (3, 11))
for step in range(2):
    out = model(text[:, :-1].to("cuda:0"))
    loss = F.cross_entropy(out.flatten(0, 1), text[:, 1:].flatten().to("cuda:1"))
    opt.zero_grad()
    loss.backward()
    opt.step()
    print(step, loss.item())
