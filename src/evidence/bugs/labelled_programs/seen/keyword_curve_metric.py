# cause: metric-state-device
# guilty: scores (self.thresholds, thresholds)
# line: 73
# repair: in PrecisionRecallCurve.compute() bring both to one device: compare with self.thresholds.to(scores.device) (or scores.to(self.thresholds.device)) OR build the metric without compute_on_cpu OR leave this metric off the card (no .to(device))
"""Keyword spotting with a small metric collection of our own; long score lists wait in host memory."""
import torch
from torch import nn
from torch.nn import functional as F


class Metric:
    """States are added by name; list states may be parked on the host between updates."""

    def __init__(self, compute_on_cpu=False):
        self.compute_on_cpu = compute_on_cpu
        self._states, self._constants = {}, set()

    def add_state(self, name, default, constant=False):
        self._states[name] = [] if isinstance(default, list) else default.clone()
        setattr(self, name, [] if isinstance(default, list) else default.clone())
        if constant:
            self._constants.add(name)

    def to(self, device):
        for name in self._states:
            value = getattr(self, name)
            moved = [v.to(device) for v in value] if isinstance(value, list) else value.to(device)
            setattr(self, name, moved)
        return self

    def reset(self):
        for name, default in self._states.items():
            if isinstance(default, list):
                setattr(self, name, [])
            elif name not in self._constants:
                setattr(self, name, default.clone().to(getattr(self, name).device))

    def __call__(self, logits, target):
        self.update(logits.detach(), target)
        if self.compute_on_cpu:
            for name, default in self._states.items():
                if isinstance(default, list):
                    setattr(self, name, [v.cpu() for v in getattr(self, name)])


class HitRate(Metric):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.add_state("hits", torch.zeros(()))
        self.add_state("seen", torch.zeros(()))

    def update(self, logits, target):
        self.hits += ((logits > 0) == target.bool()).float().sum()
        self.seen += target.numel()

    def compute(self):
        return (self.hits / self.seen).item()


class PrecisionRecallCurve(Metric):
    def __init__(self, bins=21, **kwargs):
        super().__init__(**kwargs)
        self.add_state("thresholds", torch.linspace(0, 1, bins), constant=True)
        self.add_state("scores", [])
        self.add_state("targets", [])

    def update(self, logits, target):
        self.scores.append(logits.sigmoid().flatten())
        self.targets.append(target.flatten().bool())

    def compute(self):
        scores, targets = torch.cat(self.scores), torch.cat(self.targets)
        fired = scores[:, None] >= self.thresholds[None, :]
        hit = (fired & targets[:, None]).sum(0).float()
        precision = hit / fired.sum(0).clamp(min=1)
        recall = hit / targets.sum().clamp(min=1)
        return torch.trapezoid(precision.flip(0), recall.flip(0)).item()


class KeywordSpotter(nn.Module):
    def __init__(self, mels=20, hidden=32):
        super().__init__()
        self.rnn = nn.GRU(mels, hidden, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * hidden, 1)

    def forward(self, mel):
        return self.head(self.rnn(mel)[0].amax(1)).squeeze(-1)


def run_epoch(model, batches, device, metrics, optimizer=None):
    model.train(optimizer is not None)
    for metric in metrics.values():
        metric.reset()
    for mel, target in batches:
        mel, target = mel.to(device), target.to(device)
        with torch.set_grad_enabled(optimizer is not None):
            logits = model(mel)
            loss = F.binary_cross_entropy_with_logits(logits, target)
        if optimizer is not None:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        for metric in metrics.values():
            metric(logits, target)
    return {name: round(metric.compute(), 3) for name, metric in metrics.items()}


def main():
    torch.manual_seed(0)
    device = torch.device("cuda:0")
    model = KeywordSpotter().to(device)
    optimizer = torch.optim.Adam(model.parameters(), 2e-3)
    batches = [(torch.randn(24, 30, 20), (torch.rand(24) > 0.6).float()) for _ in range(5)]
    train_metrics = {"hit_rate": HitRate().to(device)}
    valid_metrics = {"hit_rate": HitRate().to(device), "auprc": PrecisionRecallCurve(compute_on_cpu=True).to(device)}
    for epoch in range(2):
        print(epoch, "train", run_epoch(model, batches, device, train_metrics, optimizer))
        print(epoch, "valid", run_epoch(model, batches[:2], device, valid_metrics))


if __name__ == "__main__":
    main()
