# cause: loss-or-label-on-other-device|tensor-created-on-wrong-device
# guilty: self.weights (weight or weights)
import torch
import torch.nn as nn


class Trainer:
    def __init__(self, model, class_counts, device):
        self.device = torch.device(device)
        self.model = model.to(self.device)
        freq = torch.tensor(class_counts, dtype=torch.float32)
        self.weights = (freq.sum() / freq).sqrt()
        self.opt = torch.optim.SGD(self.model.parameters(), 0.1)
        self.sched = torch.optim.lr_scheduler.CosineAnnealingLR(self.opt, 5)

    def loss(self, logits, target):
        return nn.functional.cross_entropy(logits, target, weight=self.weights, ignore_index=255)

    def fit(self, batches):
        for img, seg in batches:
            img, seg = img.to(self.device), seg.to(self.device)
            loss = self.loss(self.model(img), seg)
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            self.sched.step()
            yield loss.item()


def batches(n):
    for _ in range(n):
        seg = torch.randint(0, 4, (2, 8, 8))
        seg[:, 0] = 255
        yield torch.randn(2, 3, 8, 8), seg


def net():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(),
        nn.Conv2d(8, 8, 3, stride=2, padding=1), nn.ReLU(),
        nn.Upsample(scale_factor=2), nn.Conv2d(8, 4, 1),
    )


if __name__ == "__main__":
    torch.manual_seed(0)
    tr = Trainer(net(), [900, 300, 60, 10], "cuda:0")
    print([round(v, 3) for v in tr.fit(batches(3))])
