# cause: data-parallel-replica-device|tensor-created-on-wrong-device
# guilty: prototype (self.prototypes, self.prototypes[level])
# line: 45
# repair: register each prototype as a buffer or an nn.ParameterList, so that replicate copies it to every card OR in PrototypeHead.forward use prototype.to(x.device) OR do not wrap the model in nn.DataParallel
"""Few-shot features at several scales, trained with nn.DataParallel on all cards."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Stem(nn.Module):
    def __init__(self, width, levels=3):
        super().__init__()
        self.first = nn.Conv2d(3, width, 3, padding=1)
        self.steps = nn.ModuleList(nn.Conv2d(width, width, 3, 2, 1) for _ in range(levels))

    def forward(self, x):
        x = F.relu(self.first(x))
        maps = []
        for step in self.steps:
            x = F.relu(step(x))
            maps.append(x)
        return maps


class PrototypeHead(nn.Module):
    def __init__(self, width, classes, levels=3):
        super().__init__()
        self.classes = classes
        self.weights = nn.Parameter(torch.zeros(levels))
        self.prototypes = [torch.empty(classes, width) for _ in range(levels)]

    @torch.no_grad()
    def fit(self, maps, labels):
        for level, fmap in enumerate(maps):
            pooled = fmap.mean((2, 3))
            onehot = F.one_hot(labels, self.classes).to(pooled.dtype)
            self.prototypes[level] = onehot.T @ pooled / onehot.sum(0).clamp(min=1)[:, None]

    def forward(self, maps):
        total = 0
        for level, fmap in enumerate(maps):
            x = F.normalize(fmap.mean((2, 3)), dim=-1)
            prototype = F.normalize(self.prototypes[level], dim=-1)
            total = total + self.weights[level].exp() * (x @ prototype.T)
        return total


class FewShotNet(nn.Module):
    def __init__(self, width=16, classes=5):
        super().__init__()
        self.stem = Stem(width)
        self.head = PrototypeHead(width, classes)

    def forward(self, images):
        return self.head(self.stem(images))

    def remember(self, images, labels):
        self.head.fit(self.stem(images), labels)


def episode(classes=5, shots=4):
    labels = torch.arange(classes).repeat_interleave(shots)
    images = torch.randn(len(labels), 3, 24, 24) + labels[:, None, None, None] * 0.2
    return images, labels


def train(device="cuda:0", episodes=3):
    net = FewShotNet().to(device)
    wrapped = nn.DataParallel(net, device_ids=[0, 1])
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    for index in range(episodes):
        support, support_labels = episode()
        net.remember(support.to(device), support_labels.to(device))
        query, query_labels = episode()
        logits = wrapped(query.to(device))
        loss = F.cross_entropy(logits, query_labels.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(index, loss.item())
    return net


if __name__ == "__main__":
    torch.manual_seed(0)
    train()
