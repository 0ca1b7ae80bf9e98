# cause: device-ordinal-out-of-range
# guilty: ? (device, card)
# line: 78
# repair: in claim_card, after the visibility variable is narrowed to one card, hand back torch.device("cuda:0") (cards are counted anew among the visible ones) OR leave CUDA_VISIBLE_DEVICES alone and keep the ordinal
"""Fit one survival model per patient cohort; every job is pinned to the card its settings name."""
import os
from dataclasses import dataclass

import torch
import torch.nn as nn


@dataclass
class Job:
    cohort: str
    card: int
    features: int = 12
    hidden: int = 24
    epochs: int = 3


SCHEDULE = {
    "cardiology": Job("cardiology", card=1),
    "oncology": Job("oncology", card=1, hidden=32),
}


def claim_card(card):
    """Keep the process off the other cards, which belong to other users of the host."""
    os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    os.environ["CUDA_VISIBLE_DEVICES"] = str(card)
    return torch.device(f"cuda:{card}")


class RiskNet(nn.Module):
    def __init__(self, features, hidden):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(features, hidden), nn.SELU(), nn.AlphaDropout(0.1), nn.Linear(hidden, 1, bias=False),
        )

    def forward(self, x):
        return self.net(x).squeeze(-1)


def cox_loss(risk, time, event):
    order = time.argsort(descending=True)
    risk, event = risk[order], event[order]
    return -((risk - risk.logcumsumexp(0)) * event).sum() / event.sum().clamp(min=1)


def concordance(risk, time, event):
    earlier = (time[:, None] < time[None]) & (event[:, None] > 0)
    agree = (risk[:, None] > risk[None]) & earlier
    return (agree.sum() / earlier.sum().clamp(min=1)).item()


class CohortData(torch.utils.data.Dataset):
    def __init__(self, job, size=64):
        g = torch.Generator().manual_seed(len(job.cohort))
        self.x = torch.randn(size, job.features, generator=g)
        hazard = (self.x[:, 0] - 0.5 * self.x[:, 1]).exp()
        self.time = -torch.rand(size, generator=g).clamp(min=1e-4).log() / hazard
        self.event = (torch.rand(size, generator=g) < 0.7).float()

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], self.time[i], self.event[i]


class CohortWorker:
    def __init__(self, job):
        self.job = job
        self.device = claim_card(job.card)
        model = RiskNet(job.features, job.hidden)
        self.model = model.to(self.device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=5e-3)

    def epoch(self, loader):
        total = 0.0
        for batch in loader:
            x, time, event = (t.to(self.device) for t in batch)
            loss = cox_loss(self.model(x), time, event)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            total += loss.item()
        return total / len(loader)

    @torch.no_grad()
    def score(self, data):
        self.model.eval()
        risk = self.model(data.x.to(self.device)).cpu()
        self.model.train()
        return concordance(risk, data.time, data.event)

    def run(self):
        data = CohortData(self.job)
        loader = torch.utils.data.DataLoader(data, batch_size=16, shuffle=True)
        for epoch in range(self.job.epochs):
            print(self.job.cohort, epoch, round(self.epoch(loader), 3), round(self.score(data), 3))


def main(cohort="oncology"):
    torch.manual_seed(0)
    CohortWorker(SCHEDULE[cohort]).run()


if __name__ == "__main__":
    main()
