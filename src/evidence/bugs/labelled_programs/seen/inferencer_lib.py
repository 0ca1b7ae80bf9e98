# cause: device-from-unordered-set
# guilty: ids
"""A thin inference wrapper as found in many small libraries."""
import torch
from torch import nn


class Inferencer:
    def __init__(self, model, batch_size=4):
        self.model = model.eval()
        self.batch_size = batch_size
        devices = {p.device for p in model.parameters()}
        self.device = next(iter(devices))

    def _batches(self, rows):
        for i in range(0, len(rows), self.batch_size):
            yield nn.utils.rnn.pad_sequence(rows[i:i + self.batch_size], batch_first=True)

    @torch.no_grad()
    def predict(self, rows):
        out = []
        for ids in self._batches(rows):
            ids = ids.to(self.device)
            out.append(self.model(ids).argmax(-1).cpu())
        return torch.cat(out)


class StackedClassifier(nn.Module):
    def __init__(self, bottom, top, vocab=90, d=24, classes=3):
        super().__init__()
        self.bottom, self.top = torch.device(bottom), torch.device(top)
        self.embed = nn.Embedding(vocab, d, padding_idx=0).to(self.bottom)
        self.conv = nn.Conv1d(d, 32, 3, padding=1).to(self.bottom)
        self.mlp = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, classes)).to(self.top)

    def forward(self, ids):
        h = self.conv(self.embed(ids).transpose(1, 2)).relu().amax(-1)
        return self.mlp(h.to(self.top))


def fit(model, steps):
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    for _ in range(steps):
        ids = torch.randint(1, 90, (16, 9), device=model.bottom)
        y = (ids[:, 0] % 3).to(model.top)
        loss = nn.functional.cross_entropy(model(ids), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    return loss.item()


def main():
    torch.manual_seed(0)
    model = StackedClassifier(bottom="cuda:1", top="cuda:0")
    print("loss", fit(model, 6))
    rows = [torch.randint(1, 90, (n,)) for n in (4, 9, 6, 7, 5, 8)]
    print(Inferencer(model).predict(rows).tolist())


if __name__ == "__main__":
    main()
