# cause: loss-or-label-on-other-device
# guilty: target (targets, micro_y, labels)
# line: 59
# repair: in Schedule.run send the targets to the device of the last stage (self.stages[-1].device) instead of self.stages[0].device
"""Hand-made pipeline: stage objects, micro-batches and a fill-drain schedule."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Stage:
    def __init__(self, module, device):
        self.device = torch.device(device)
        self.module = module.to(self.device)
        self.inbox = []

    def push(self, index, value):
        self.inbox.append((index, value.to(self.device)))

    def pop(self):
        index, value = self.inbox.pop(0)
        return index, self.module(value)


class Schedule:
    def __init__(self, stages, criterion, chunks=4):
        self.stages, self.criterion, self.chunks = stages, criterion, chunks

    def run(self, x, y):
        entry = self.stages[0].device
        targets = y.to(entry).chunk(self.chunks)
        for index, micro in enumerate(x.to(entry).chunk(self.chunks)):
            self.stages[0].push(index, micro)
        losses = []
        for _ in range(self.chunks + len(self.stages) - 1):
            losses += self._tick(targets)
        return torch.stack(losses).mean()

    def _tick(self, targets):
        done = []
        for position in reversed(range(len(self.stages))):
            stage = self.stages[position]
            if not stage.inbox:
                continue
            index, out = stage.pop()
            if position + 1 < len(self.stages):
                self.stages[position + 1].push(index, out)
            else:
                done.append(self.criterion(out, targets[index]))
        return done


def cut(layers, devices):
    size = -(-len(layers) // len(devices))
    return [Stage(nn.Sequential(*layers[i * size:(i + 1) * size]), d) for i, d in enumerate(devices)]


def smoothed(out, target):
    return F.cross_entropy(out, target, label_smoothing=0.1)


if __name__ == "__main__":
    torch.manual_seed(0)
    layers = [nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, padding=1),
              nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(64, 10)]
    stages = cut(layers, ["cuda:0", "cuda:1"])
    optimizer = torch.optim.SGD([p for s in stages for p in s.module.parameters()], lr=0.1)
    schedule = Schedule(stages, smoothed)
    for step in range(3):
        loss = schedule.run(torch.rand(16, 1, 12, 12), torch.randint(0, 10, (16,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item())
