# cause: metric-state-device|tensor-created-on-wrong-device
# guilty: limits (self.device)
# line: 59
# repair: in BoundaryRecall.update make the limits on the device of the input: torch.arange(..., device=distance.device) OR let the metric's device property follow its buffers (return self.hits.device) instead of the value kept from construction
"""Phoneme segmentation: evaluate predicted boundaries at several tolerances."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Metric(nn.Module):
    """Keeps running state in buffers, so .to() moves it like any module."""

    def __init__(self, device):
        super().__init__()
        self._device = torch.device(device)

    @property
    def device(self):
        return self._device

    def add_state(self, name, value):
        self.register_buffer(name, value.to(self._device), persistent=False)

    def reset(self):
        for buffer in self.buffers():
            buffer.zero_()


class FrameAccuracy(Metric):
    def __init__(self, device):
        super().__init__(device)
        self.add_state("right", torch.zeros(()))
        self.add_state("total", torch.zeros(()))

    def update(self, scores, target):
        self.right += ((scores > 0) == target.bool()).sum()
        self.total += target.numel()

    def compute(self):
        return (self.right / self.total).item()


class BoundaryRecall(Metric):
    def __init__(self, device, tolerances=4):
        super().__init__(device)
        self.tolerances = tolerances
        self.add_state("hits", torch.zeros(tolerances))
        self.add_state("total", torch.zeros(()))

    def update(self, scores, target):
        for row, truth in zip(scores, target):
            predicted, wanted = (row > row.mean()).nonzero()[:, 0], truth.nonzero()[:, 0]
            if not len(predicted) or not len(wanted):
                self.total += len(wanted)
                continue
            distance = (predicted[None] - wanted[:, None]).abs().amin(1)
            limits = torch.arange(self.tolerances, device=self.device)
            self.hits += (distance[:, None] <= limits).sum(0)
            self.total += len(wanted)

    def compute(self):
        return [round(v, 3) for v in (self.hits / self.total.clamp(min=1)).tolist()]


class Segmenter(nn.Module):
    def __init__(self, mels=20, dim=24):
        super().__init__()
        self.front = nn.Conv1d(mels, dim, 5, padding=2)
        self.rnn = nn.GRU(dim, dim, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * dim, 1)

    def forward(self, mels):
        x = F.relu(self.front(mels)).transpose(1, 2)
        return self.out(self.rnn(x)[0]).squeeze(-1)


class Experiment:
    def __init__(self, train_card, eval_card):
        self.train_card, self.eval_card = torch.device(train_card), torch.device(eval_card)
        self.model = Segmenter().to(self.train_card)
        self.metrics = nn.ModuleDict({
            "accuracy": FrameAccuracy(self.train_card),
            "recall": BoundaryRecall(self.train_card),
        })
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=2e-3)

    def train(self, batches):
        for mels, target in batches:
            mels, target = mels.to(self.train_card), target.to(self.train_card)
            scores = self.model(mels)
            loss = F.binary_cross_entropy_with_logits(scores, target, pos_weight=target.new_tensor(4.0))
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            for metric in self.metrics.values():
                metric.update(scores.detach(), target)
        return {name: m.compute() for name, m in self.metrics.items()}

    @torch.no_grad()
    def evaluate(self, batches):
        twin = Segmenter().to(self.eval_card).eval()
        twin.load_state_dict(self.model.state_dict())
        self.metrics.to(self.eval_card)
        for metric in self.metrics.values():
            metric.reset()
        for mels, target in batches:
            scores = twin(mels.to(self.eval_card))
            for metric in self.metrics.values():
                metric.update(scores, target.to(self.eval_card))
        return {name: m.compute() for name, m in self.metrics.items()}


def main():
    torch.manual_seed(0)
    batches = [(torch.randn(4, 20, 80), (torch.rand(4, 80) < 0.1).float()) for _ in range(3)]
    experiment = Experiment("cuda:0", "cuda:1")
    print("train", experiment.train(batches))
    print("eval", experiment.evaluate(batches))


if __name__ == "__main__":
    main()
