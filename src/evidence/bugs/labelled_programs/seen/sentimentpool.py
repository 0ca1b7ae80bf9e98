# cause: extra-input-on-wrong-device
# guilty: mask (inputs["mask"])
import torch
import torch.nn as nn

PAD = 0
VOCAB = {w: i for i, w in enumerate("<pad> the film was good bad dull bright and slow".split())}


def encode(texts):
    rows = [[VOCAB[w] for w in t.split()] for t in texts]
    width = max(map(len, rows))
    return torch.tensor([r + [PAD] * (width - len(r)) for r in rows])


class Pooled(nn.Module):
    def __init__(self, vocab, dim=12):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim, padding_idx=PAD)
        self.score = nn.Linear(dim, 1)
        self.out = nn.Linear(dim, 2)

    def forward(self, ids, mask):
        h = self.emb(ids)
        s = self.score(h).squeeze(-1)
        s = s.masked_fill(mask, float("-inf"))
        return self.out((s.softmax(-1).unsqueeze(-1) * h).sum(1))


def collate(texts, labels):
    ids = encode(texts)
    return {"ids": ids, "mask": ids == PAD}, torch.tensor(labels)


torch.manual_seed(0)
net = Pooled(len(VOCAB)).to("cuda:0")
inputs, y = collate(["the film was good", "bad and slow", "dull", "bright and good"], [1, 0, 0, 1])
inputs["ids"] = inputs["ids"].to("cuda:0")
y = y.to("cuda:0")
opt = torch.optim.Adam(net.parameters(), 0.05)
for _ in range(5):
    loss = nn.functional.cross_entropy(net(**inputs), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
