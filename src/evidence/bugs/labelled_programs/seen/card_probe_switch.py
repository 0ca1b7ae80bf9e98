# cause: hard-coded-device|input-not-on-embedding-device|generator-or-default-device
# guilty: ids (batch, batch["ids"])
# line: 29
# repair: in Fitter.step move the batch to the model's card (v.to(self.card) instead of v.cuda(), which is the card that the probe made current last) OR in roomiest_card use `with torch.cuda.device(i)` or reset torch.cuda.set_device to the result
"""Pick the card with the most memory, then fit a bag-of-words ticket sorter on it."""
import torch
from torch import nn


def probe(index):
    torch.cuda.set_device(index)
    scratch = torch.zeros(16, 16).cuda()
    scratch = scratch @ scratch
    return torch.cuda.get_device_properties(index).total_memory


def roomiest_card():
    sizes = [probe(i) for i in range(torch.cuda.device_count())]
    return max(range(len(sizes)), key=sizes.__getitem__)


class Sorter(nn.Module):
    def __init__(self, vocab=300, dim=24, queues=6):
        super().__init__()
        self.table = nn.Embedding(vocab, dim, padding_idx=0)
        self.out = nn.Linear(dim, queues)

    def forward(self, ids):
        h = self.table(ids)
        n = ids.ne(0).sum(1, keepdim=True).clamp(min=1)
        return self.out(h.sum(1) / n)


class Fitter:
    def __init__(self, model, lr=1e-2):
        self.card = torch.device(f"cuda:{roomiest_card()}")
        self.model = model.to(self.card)
        self.opt = torch.optim.Adam(self.model.parameters(), lr=lr)
        self.criterion = nn.CrossEntropyLoss()

    def step(self, batch):
        batch = {k: v.cuda(non_blocking=True) for k, v in batch.items()}
        loss = self.criterion(self.model(batch["ids"]), batch["queue"])
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return loss.item()


def tickets(n, size=16):
    for _ in range(n):
        yield {"ids": torch.randint(0, 300, (size, 30)), "queue": torch.randint(0, 6, (size,))}


if __name__ == "__main__":
    torch.manual_seed(0)
    fitter = Fitter(Sorter())
    for batch in tickets(4):
        print(fitter.card, fitter.step(batch))
