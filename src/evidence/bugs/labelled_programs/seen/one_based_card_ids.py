# cause: device-ordinal-out-of-range
# guilty: card (cuda:2, stage)
# line: 40
# repair: in StageConfig.card count the cards from zero: f"cuda:{self.number - 1}" for stages numbered from one OR number the stages of PLAN from 0
"""Stages of an ocean-wave emulator are described by a table and placed one per card."""
from dataclasses import dataclass, field

import torch
from torch import nn


@dataclass
class StageConfig:
    number: int
    widths: list = field(default_factory=list)

    @property
    def card(self):
        return f"cuda:{self.number}"


PLAN = [StageConfig(1, [12, 32, 32]), StageConfig(2, [32, 32, 12])]


def mlp(widths):
    layers = []
    for a, b in zip(widths, widths[1:]):
        layers += [nn.Linear(a, b), nn.Tanh()]
    return nn.Sequential(*layers)


class WaveEmulator(nn.Module):
    def __init__(self, plan):
        super().__init__()
        self.cards = [cfg.card for cfg in plan]
        self.stages = nn.ModuleList([mlp(cfg.widths) for cfg in plan])

    def place(self):
        for stage, card in zip(self.stages, self.cards):
            stage.to(card)
        return self

    def forward(self, x):
        for stage, card in zip(self.stages, self.cards):
            x = stage(x.to(card))
        return x


def rollout(model, state, steps):
    states = [state]
    for _ in range(steps):
        state = model(state).to(state.device)
        states.append(state)
    return torch.stack(states, dim=1)


def train(model, steps=3):
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(steps):
        now = torch.randn(16, 12)
        later = now.roll(1, dims=1) * 0.9
        out = model(now)
        loss = (out - later.to(out.device)).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    return loss.item()


if __name__ == "__main__":
    torch.manual_seed(0)
    model = WaveEmulator(PLAN).place()
    print("loss", train(model))
    with torch.no_grad():
        print(rollout(model, torch.randn(2, 12), 4).shape)
