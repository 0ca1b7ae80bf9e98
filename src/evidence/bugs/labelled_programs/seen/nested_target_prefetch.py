# cause: loss-or-label-on-other-device|extra-input-on-wrong-device
# guilty: boxes (target["boxes"])
# line: 63
# repair: in Prefetcher.move go down into lists and dicts too (move the tensors inside batch["targets"]) OR in SetLoss.forward use target["boxes"].to(pred.device)
"""Train a set predictor for table cells with a prefetching loader."""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Cells(Dataset):
    def __len__(self):
        return 24

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        n = int(torch.randint(1, 5, (), generator=g))
        return torch.randn(1, 24, 24, generator=g), torch.rand(n, 4, generator=g)


def collate(items):
    images, boxes = zip(*items)
    return {"images": torch.stack(images), "targets": [{"boxes": b, "count": len(b)} for b in boxes]}


class Prefetcher:
    def __init__(self, loader, device):
        self.loader, self.device = loader, torch.device(device)

    def move(self, batch):
        return {k: v.to(self.device, non_blocking=True) if torch.is_tensor(v) else v for k, v in batch.items()}

    def __iter__(self):
        ahead = None
        for batch in self.loader:
            batch = self.move(batch)
            if ahead is not None:
                yield ahead
            ahead = batch
        if ahead is not None:
            yield ahead


class CellNet(nn.Module):
    def __init__(self, queries=6, dim=24):
        super().__init__()
        self.patch = nn.Conv2d(1, dim, 6, 6)
        self.queries = nn.Parameter(torch.randn(queries, dim))
        self.box = nn.Linear(dim, 4)

    def forward(self, x):
        mem = self.patch(x).flatten(2).transpose(1, 2)
        q = self.queries.expand(x.shape[0], -1, -1)
        h = q + (q @ mem.transpose(1, 2)).softmax(-1) @ mem
        return self.box(h).sigmoid()


class SetLoss(nn.Module):
    def forward(self, preds, targets):
        total = preds.new_zeros(())
        for pred, target in zip(preds, targets):
            boxes = target["boxes"]
            cost = torch.cdist(boxes, pred, p=1)
            total = total + cost.amin(1).mean()
        return total / len(targets)


if __name__ == "__main__":
    torch.manual_seed(0)
    device = "cuda:0"
    net, criterion = CellNet().to(device), SetLoss()
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
    loader = DataLoader(Cells(), batch_size=6, shuffle=True, collate_fn=collate)
    for epoch in range(2):
        for batch in Prefetcher(loader, device):
            loss = criterion(net(batch["images"]), batch["targets"])
            opt.zero_grad()
            loss.backward()
            opt.step()
        print(epoch, loss.item())
