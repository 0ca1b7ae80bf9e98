# cause: input-not-on-embedding-device|hard-coded-device|module-left-on-other-device|extra-input-on-wrong-device
# guilty: xb.cuda() (xb)
"""Train on the first card and evaluate a frozen copy on the second one every few steps."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset


def make_data(n, dim=12, classes=3, seed=0):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, classes, (n,), generator=g)
    x = torch.randn(n, dim, generator=g) + 1.5 * F.one_hot(y, dim).float()
    return TensorDataset(x, y)


def make_net(dim=12, hidden=48, classes=3, depth=2):
    layers = [nn.Linear(dim, hidden), nn.BatchNorm1d(hidden), nn.ReLU()]
    for _ in range(depth - 1):
        layers += [nn.Linear(hidden, hidden), nn.BatchNorm1d(hidden), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(hidden, classes))


class ShadowEvaluator:
    """Keeps a copy of the model on another card, so that evaluation does not eat training memory."""

    def __init__(self, index, dataset):
        self.index = index
        self.loader = DataLoader(dataset, batch_size=64)
        self.copy = None

    @torch.no_grad()
    def run(self, model):
        torch.cuda.set_device(self.index)
        if self.copy is None:
            self.copy = copy.deepcopy(model).cuda().eval()
        else:
            self.copy.load_state_dict(model.state_dict())
        hits = total = 0
        for xb, yb in self.loader:
            pred = self.copy(xb.cuda()).argmax(-1).cpu()
            hits += int((pred == yb).sum())
            total += len(yb)
        return hits / total


def train(model, loader, evaluator, epochs=2, eval_every=4):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    step = 0
    for _ in range(epochs):
        for xb, yb in loader:
            model.train()
            logits = model(xb.cuda())
            loss = F.cross_entropy(logits, yb.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if step % eval_every == 0:
                print(f"step {step}: loss {loss.item():.3f} acc {evaluator.run(model):.3f}")


def main():
    torch.manual_seed(0)
    model = make_net().cuda()
    loader = DataLoader(make_data(256), batch_size=32, shuffle=True)
    train(model, loader, ShadowEvaluator(1, make_data(128, seed=1)))


if __name__ == "__main__":
    main()
