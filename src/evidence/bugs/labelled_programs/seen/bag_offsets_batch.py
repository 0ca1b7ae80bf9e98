# cause: extra-input-on-wrong-device|input-not-on-embedding-device
# guilty: batch.extras["offsets"] (offsets)
# line: 60
# repair: make Batch.to move the tensors within dict (and list) fields too: `{k: v.to(device) for k, v in self.extras.items()}` for extras
"""News headline classifier over bags of n-grams; batches are dataclasses with extra fields."""
from dataclasses import dataclass, field, fields, replace
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset


@dataclass
class Batch:
    grams: torch.Tensor
    label: torch.Tensor
    extras: dict = field(default_factory=dict)

    def to(self, device):
        moved = {f.name: getattr(self, f.name).to(device, non_blocking=True)
                 for f in fields(self) if torch.is_tensor(getattr(self, f.name))}
        return replace(self, **moved)


class Headlines(Dataset):
    def __init__(self, n=40, vocab=300, seed=0):
        g = torch.Generator().manual_seed(seed)
        self.rows = []
        for _ in range(n):
            label = int(torch.randint(0, 3, (1,), generator=g))
            length = int(torch.randint(3, 9, (1,), generator=g))
            self.rows.append((torch.randint(label * 100, label * 100 + 100, (length,), generator=g), label))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


def collate(rows):
    lengths = torch.tensor([0] + [len(r[0]) for r in rows[:-1]])
    return Batch(torch.cat([r[0] for r in rows]), torch.tensor([r[1] for r in rows]),
                 {"offsets": lengths.cumsum(0), "size": len(rows)})


class BagNet(nn.Module):
    def __init__(self, vocab=300, dim=16, classes=3):
        super().__init__()
        self.bag = nn.EmbeddingBag(vocab, dim, mode="mean")
        self.out = nn.Linear(dim, classes)
        self.out_device = None

    def split(self, bag, out):
        self.bag.to(bag)
        self.out.to(out)
        self.out_device = out
        return self

    def forward(self, batch):
        vectors = self.bag(batch.grams, batch.extras["offsets"])
        return self.out(vectors.to(self.out_device))


if __name__ == "__main__":
    torch.manual_seed(0)
    net = BagNet().split("cuda:1", "cuda:0")
    opt = torch.optim.Adam(net.parameters(), lr=0.05)
    for epoch in range(2):
        for batch in DataLoader(Headlines(), batch_size=8, shuffle=True, collate_fn=collate):
            batch = batch.to("cuda:1")
            logits = net(batch)
            loss = nn.functional.cross_entropy(logits, batch.label.to(logits.device))
            opt.zero_grad()
            loss.backward()
            opt.step()
        print(epoch, round(loss.item(), 4))
