# cause: meta-tensor-not-materialized
# guilty: self.net.rank_head (rank_head, rank_head.weight, the new head's weights)
# line: 69
# repair: materialise what the checkpoint lacks before the move (net.rank_head.to_empty(device=device) followed by reset_parameters(), in Loader.fill for the missing keys) OR build the new head outside init_empty_weights OR load a checkpoint that has the head
"""A ranker started from the weights of a tagger, built without memory first."""
import os
import tempfile

import torch
import torch.nn.functional as F
from accelerate import init_empty_weights
from torch import nn


class Encoder(nn.Module):
    def __init__(self, vocab=120, width=24):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.cell = nn.GRU(width, width, batch_first=True)

    def forward(self, ids):
        return self.cell(self.embed(ids))[0]


class Tagger(nn.Module):
    def __init__(self, tags=7, width=24):
        super().__init__()
        self.encoder = Encoder(width=width)
        self.tag_head = nn.Linear(width, tags)

    def forward(self, ids):
        return self.tag_head(self.encoder(ids))


class Ranker(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.encoder = Encoder(width=width)
        self.rank_head = nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1))

    def forward(self, ids):
        return self.rank_head(self.encoder(ids).mean(1)).squeeze(-1)


class Loader:
    """Builds the module on the meta device, then fills it from the file."""

    def __init__(self, path, ignore=("tag_head.",)):
        self.path = path
        self.ignore = ignore

    def skeleton(self, factory):
        with init_empty_weights():
            return factory()

    def fill(self, net):
        state = torch.load(self.path, map_location="cpu")
        state = {k: v for k, v in state.items() if not k.startswith(self.ignore)}
        report = net.load_state_dict(state, strict=False, assign=True)
        if report.unexpected_keys:
            raise KeyError(report.unexpected_keys)
        return net


class RankTrainer:
    def __init__(self, net, device):
        self.net = net
        self.device = device
        self.net.to(self.device)
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=1e-3)

    def step(self, good, bad):
        gap = self.net(good.to(self.device)) - self.net(bad.to(self.device))
        loss = F.softplus(-gap).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


def main():
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "tagger.pt")
        torch.save(Tagger().state_dict(), path)
        loader = Loader(path)
        net = loader.fill(loader.skeleton(Ranker))
    trainer = RankTrainer(net, "cuda:0")
    for step in range(3):
        print(step, trainer.step(torch.randint(0, 60, (8, 12)), torch.randint(60, 120, (8, 12))))


if __name__ == "__main__":
    main()
