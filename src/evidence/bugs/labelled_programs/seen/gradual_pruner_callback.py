# cause: tensor-created-on-wrong-device|optimizer-state-on-other-device
# guilty: mask (self.masks)
# line: 56
# repair: in Trainer place the model before the callbacks are set up (spread before the on_setup loop, or the on_setup loop in fit after self.model.spread) OR in on_step_end use mask.to(p.device) / self.masks[name] = mask.to(p.device)
"""Gradual magnitude pruning as a trainer callback; the net lies over two cards."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class TwoCardMLP(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.front = nn.Sequential(nn.Linear(20, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.back = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 5))
        self.cards = ("cpu", "cpu")

    def spread(self, first, second):
        self.front.to(first)
        self.back.to(second)
        self.cards = (first, second)

    def forward(self, x):
        x = self.front(x.to(self.cards[0]))
        return self.back(x.to(self.cards[1]))


class Callback:
    def on_setup(self, trainer): ...
    def on_step_end(self, trainer): ...


class PruneCallback(Callback):
    def __init__(self, final=0.8, every=2, total=10):
        self.final, self.every, self.total = final, every, total
        self.masks = {}

    def on_setup(self, trainer):
        for name, p in trainer.model.named_parameters():
            if p.dim() == 2:
                self.masks[name] = torch.ones_like(p, dtype=torch.bool)

    def sparsity(self, step):
        return self.final * (1 - (1 - min(step / self.total, 1.0)) ** 3)

    @torch.no_grad()
    def on_step_end(self, trainer):
        params = dict(trainer.model.named_parameters())
        for name, mask in self.masks.items():
            p = params[name]
            if trainer.step % self.every == 0:
                k = int(self.sparsity(trainer.step) * p.numel())
                if k:
                    threshold = p.abs().flatten().kthvalue(k).values
                    mask = self.masks[name] = p.abs() > threshold
            p.mul_(mask)


class Trainer:
    def __init__(self, model, callbacks):
        self.model, self.callbacks, self.step = model, callbacks, 0
        for callback in self.callbacks:
            callback.on_setup(self)

    def fit(self, batches):
        self.model.spread("cuda:0", "cuda:1")
        optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05)
        for x, y in batches:
            self.step += 1
            out = self.model(x)
            loss = F.cross_entropy(out, y.to(out.device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            for callback in self.callbacks:
                callback.on_step_end(self)
        return loss.item()


if __name__ == "__main__":
    data = [(torch.randn(16, 20), torch.randint(0, 5, (16,))) for _ in range(11)]
    pruner = PruneCallback()
    print(Trainer(TwoCardMLP(), [pruner]).fit(data))
    print({n: m.float().mean().item() for n, m in pruner.masks.items()})
