# cause: device-ordinal-out-of-range|device-map-incomplete-or-wrong
# guilty: device (f"cuda:{stage}", stage, self.plan[i])
# line: 46
# repair: in PipelinePlanner.assign cap or round up the stage: per_stage = math.ceil(depth / n_cards), or stage = min(i // per_stage, n_cards - 1)
import torch
import torch.nn as nn


class PipelinePlanner:
    def __init__(self, n_cards):
        self.n_cards = n_cards

    def assign(self, depth):
        per_stage = depth // self.n_cards
        plan = []
        for i in range(depth):
            stage = i // per_stage
            plan.append(f"cuda:{stage}")
        return plan


class ConvUnit(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv1d(channels, channels, 5, padding=2, groups=4)
        self.norm = nn.GroupNorm(4, channels)

    def forward(self, x):
        return x + torch.relu(self.norm(self.conv(x)))


class SeismicPicker(nn.Module):
    """P/S phase picking on three-component waveforms; a pipeline over all cards."""

    def __init__(self, channels=16, depth=7):
        super().__init__()
        self.stem = nn.Conv1d(3, channels, 7, padding=3)
        self.units = nn.ModuleList(ConvUnit(channels) for _ in range(depth))
        self.head = nn.Conv1d(channels, 3, 1)
        self.plan = None

    def distribute(self, planner):
        self.plan = planner.assign(len(self.units))
        self.stem.to(self.plan[0])
        for unit, device in zip(self.units, self.plan):
            unit.to(device)
        self.head.to(self.plan[-1])
        return self

    def forward(self, x):
        x = self.stem(x.to(self.plan[0]))
        for unit, device in zip(self.units, self.plan):
            x = unit(x.to(device))
        return self.head(x)


class Trainer:
    def __init__(self, model, lr=1e-3):
        self.model = model
        self.opt = torch.optim.Adam(model.parameters(), lr=lr)
        self.loss = nn.CrossEntropyLoss()

    def fit(self, waves, phases, epochs):
        for epoch in range(epochs):
            logits = self.model(waves)
            loss = self.loss(logits, phases.to(logits.device))
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            print(f"epoch {epoch}: {loss.item():.4f}")


if __name__ == "__main__":
    torch.manual_seed(0)
    cards = 2
    picker = SeismicPicker().distribute(PipelinePlanner(cards))
    waves = torch.randn(4, 3, 200)
    phases = torch.randint(0, 3, (4, 200))
    Trainer(picker).fit(waves, phases, epochs=2)
