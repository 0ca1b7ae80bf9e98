# cause: optimizer-state-on-other-device
# guilty: self.shadow
# line: 24
# repair: in Trainer.__init__ call model.place(...) before ShadowAverage(model) so that the copies are made on the cards OR in ShadowAverage.update move the copies first: self.shadow = [s.to(p.device) for s, p in zip(self.shadow, live)]
"""Training package with a running average of the weights for evaluation."""
import contextlib

import torch
import torch.nn as nn
import torch.nn.functional as F


class ShadowAverage:
    def __init__(self, model, decay=0.99):
        self.decay, self.updates = decay, 0
        self.params = [p for p in model.parameters() if p.requires_grad]
        self.shadow = [p.detach().clone() for p in self.params]

    @torch.no_grad()
    def update(self):
        self.updates += 1
        decay = min(self.decay, (1 + self.updates) / (10 + self.updates))
        live = [p.detach() for p in self.params]
        torch._foreach_lerp_(self.shadow, live, 1 - decay)

    @contextlib.contextmanager
    def swapped(self):
        kept = [p.detach().clone() for p in self.params]
        for p, s in zip(self.params, self.shadow):
            p.data.copy_(s)
        try:
            yield
        finally:
            for p, k in zip(self.params, kept):
                p.data.copy_(k)


class Forecaster(nn.Module):
    """Encoder on the first card, decoder on the second."""

    def __init__(self, channels=5, hidden=24, horizon=6):
        super().__init__()
        self.encoder = nn.GRU(channels, hidden, batch_first=True)
        self.decoder = nn.GRU(hidden, hidden, batch_first=True)
        self.out = nn.Linear(hidden, channels)
        self.horizon = horizon
        self.first = self.second = "cpu"

    def place(self, first, second):
        self.first, self.second = first, second
        self.encoder.to(first)
        self.decoder.to(second)
        self.out.to(second)
        return self

    def forward(self, past):
        _, state = self.encoder(past.to(self.first))
        state = state.to(self.second)
        steps = state[-1].unsqueeze(1).expand(-1, self.horizon, -1)
        y, _ = self.decoder(steps.contiguous(), state)
        return self.out(y)


class Trainer:
    def __init__(self, model, cards=("cuda:0", "cuda:1"), lr=1e-3):
        self.model = model
        self.average = ShadowAverage(model)
        self.cards = cards
        self.model.place(*cards)
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=lr)

    def fit(self, loader):
        for past, future in loader:
            pred = self.model(past)
            loss = F.smooth_l1_loss(pred, future.to(pred.device))
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            self.average.update()

    @torch.no_grad()
    def evaluate(self, loader):
        with self.average.swapped():
            errors = [(self.model(p).cpu() - f).abs().mean() for p, f in loader]
        return torch.stack(errors).mean().item()


def series(n):
    g = torch.Generator().manual_seed(n)
    return [(torch.randn(4, 12, 5, generator=g), torch.randn(4, 6, 5, generator=g)) for _ in range(n)]


if __name__ == "__main__":
    trainer = Trainer(Forecaster())
    trainer.fit(series(4))
    print(trainer.evaluate(series(2)))
