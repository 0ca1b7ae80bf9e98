# cause: input-not-on-embedding-device|extra-input-on-wrong-device
# guilty: ids (batch["ids"])
# after: pyg-team/pytorch_geometric#5028
import torch
from torch import nn


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(40, 8)
        self.rnn = nn.GRU(8, 8, batch_first=True)
        self.out = nn.Linear(8, 5)

    def forward(self, ids):
        return self.out(self.rnn(self.table(ids))[0])


def batches():
    for _ in range(2):
        yield {"ids": torch.randint(0, 40, (3, 6)), "tags": torch.randint(0, 5, (3, 6))}


def moved(batch, device):
    return {name: value.to(device) for name, value in batch.items()}


device = torch.device("cuda:0")
tagger = Tagger().to(device)
optimizer = torch.optim.Adam(tagger.parameters())
for batch in batches():
    batch = moved(batch, device)
    loss = nn.functional.cross_entropy(tagger(batch["ids"]).flatten(0, 1), batch["tags"].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
with torch.no_grad():
    for batch in batches():
        print((tagger(batch["ids"]).argmax(-1).cpu() == batch["tags"]).float().mean())
