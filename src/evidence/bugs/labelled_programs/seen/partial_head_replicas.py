# cause: data-parallel-replica-device|module-left-on-other-device
# guilty: self.read_out (self.read_out.keywords["weight"], weight, self.vocab.weight)
# line: 25
# repair: do not bind the parameter in __init__; call F.linear(h, self.vocab.weight) in forward, where self is the replica
import functools

import torch
import torch.nn as nn
import torch.nn.functional as F


class AbstractReader(nn.Module):
    """Keyword tagger for paper abstracts: label scores against the tied vocabulary."""

    def __init__(self, vocab=400, dim=32, labels=400):
        super().__init__()
        self.vocab = nn.Embedding(vocab, dim)
        self.body = nn.TransformerEncoderLayer(dim, 4, 64, dropout=0.0, batch_first=True)
        self.norm = nn.LayerNorm(dim)
        self.read_out = functools.partial(F.linear, weight=self.vocab.weight)

    def forward(self, ids):
        h = self.body(self.vocab(ids))
        h = self.norm(h.mean(1))
        return self.read_out(h)


class AbstractSet(torch.utils.data.Dataset):
    def __init__(self, n=64, length=20):
        g = torch.Generator().manual_seed(0)
        self.ids = torch.randint(1, 400, (n, length), generator=g)

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        target = torch.zeros(400)
        target[self.ids[i][:5]] = 1.0
        return self.ids[i], target


def run_epoch(model, loader, opt=None):
    total, count = 0.0, 0
    for ids, target in loader:
        ids, target = ids.cuda(), target.cuda()
        logits = model(ids)
        loss = F.binary_cross_entropy_with_logits(logits, target)
        if opt is not None:
            opt.zero_grad()
            loss.backward()
            opt.step()
        total += loss.item() * len(ids)
        count += len(ids)
    return total / count


if __name__ == "__main__":
    torch.manual_seed(0)
    reader = AbstractReader().cuda()
    if torch.cuda.device_count() > 1:
        reader = nn.DataParallel(reader)
    loader = torch.utils.data.DataLoader(AbstractSet(), batch_size=16, shuffle=True)
    optimizer = torch.optim.AdamW(reader.parameters(), lr=1e-3)
    for epoch in range(2):
        print(epoch, run_epoch(reader, loader, optimizer))
