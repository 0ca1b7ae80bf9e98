# cause: data-parallel-replica-device|module-left-on-other-device
# guilty: head (self.heads, self.heads[d], the head's weight)
# line: 48
# repair: keep the heads in nn.ModuleList (or ModuleDict) in DomainNet.__init__ so that DataParallel replicates them (and the optimizer sees them); the plain dict moved by hand in to_device stays on cuda:0
"""Sentiment over several shop domains: shared trunk, one head a domain, two cards."""
import torch
import torch.nn.functional as F
from torch import nn

DOMAINS = ["books", "kitchen", "music"]


class Trunk(nn.Module):
    def __init__(self, vocab, width):
        super().__init__()
        self.embed = nn.Embedding(vocab, width, padding_idx=0)
        self.conv = nn.Conv1d(width, width, 3, padding=1)

    def forward(self, ids):
        x = self.embed(ids).transpose(1, 2)
        return F.relu(self.conv(x)).amax(-1)


class DomainNet(nn.Module):
    def __init__(self, vocab=200, width=24, domains=DOMAINS):
        super().__init__()
        self.trunk = Trunk(vocab, width)
        self.heads = {name: nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 2))
                      for name in domains}
        self.domains = domains

    def to_device(self, device):
        self.to(device)
        for head in self.heads.values():
            head.to(device)
        return self

    def head_parameters(self):
        return [p for head in self.heads.values() for p in head.parameters()]

    def forward(self, ids, domain):
        h = self.trunk(ids)
        out = h.new_zeros(len(ids), 2)
        for number, name in enumerate(self.domains):
            rows = (domain == number).nonzero().squeeze(1)
            if len(rows):
                head = self.heads[name]
                out = out.index_copy(0, rows, head(h[rows]))
        return out


class Reviews:
    def __init__(self, seed):
        self.g = torch.Generator().manual_seed(seed)

    def batch(self, size):
        ids = torch.randint(1, 200, (size, 20), generator=self.g)
        domain = torch.arange(size) % len(DOMAINS)
        label = (ids.float().mean(1) > 100).long()
        return ids, domain, label


class DomainTrainer:
    def __init__(self, device, cards):
        self.device = device
        net = DomainNet().to_device(device)
        parameters = list(net.parameters()) + net.head_parameters()
        self.optimizer = torch.optim.Adam(parameters, lr=2e-3)
        self.model = nn.DataParallel(net, device_ids=cards)

    def step(self, ids, domain, label):
        logits = self.model(ids.to(self.device), domain.to(self.device))
        loss = F.cross_entropy(logits, label.to(self.device))
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


if __name__ == "__main__":
    torch.manual_seed(0)
    trainer = DomainTrainer("cuda:0", [0, 1])
    reviews = Reviews(7)
    for step in range(3):
        print(step, trainer.step(*reviews.batch(24)))
