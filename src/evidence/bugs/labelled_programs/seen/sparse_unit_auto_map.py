# cause: block-split-across-devices
# guilty: h (x, the output of self.narrow)
# line: 19
# repair: tell the planner which block must stay whole: infer_auto_device_map(model, max_memory=budget, no_split_module_classes=["PriceUnit"])
import torch
import torch.nn as nn
from accelerate import dispatch_model, infer_auto_device_map


class PriceUnit(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.wide = nn.Linear(dim, 2 * dim)
        self.narrow = nn.Linear(2 * dim, dim)

    def forward(self, x):
        h = self.narrow(nn.functional.mish(self.wide(self.norm(x))))
        return x + h


class HousePrices(nn.Module):
    def __init__(self, n_in=18, dim=32, depth=5):
        super().__init__()
        self.inp = nn.Linear(n_in, dim)
        self.units = nn.ModuleList(PriceUnit(dim) for _ in range(depth))
        self.out = nn.Linear(dim, 1)

    def forward(self, x):
        x = self.inp(x)
        for unit in self.units:
            x = unit(x)
        return self.out(x).squeeze(-1)


def size_of(model):
    return sum(p.numel() * p.element_size() for p in model.parameters())


def place(model):
    total = size_of(model)
    budget = {0: int(total * 0.55), 1: int(total * 2)}
    plan = infer_auto_device_map(model, max_memory=budget)
    for name, device in plan.items():
        print(f"{name:18s} -> {device}")
    return dispatch_model(model, device_map=plan)


def houses(n):
    x = torch.randn(n, 18)
    return x, 3 * x[:, 0] - x[:, 1] * x[:, 2]


def train(model, epochs, first, lr=1e-3):
    opt = torch.optim.Adam(model.parameters(), lr=lr)
    for epoch in range(epochs):
        x, y = houses(64)
        guess = model(x.to(first))
        loss = nn.functional.huber_loss(guess, y.to(guess.device))
        opt.zero_grad()
        loss.backward()
        opt.step()
        print("epoch", epoch, "loss", round(loss.item(), 4))


def main():
    torch.manual_seed(0)
    model = place(HousePrices())
    train(model, epochs=3, first="cuda:0")


if __name__ == "__main__":
    main()
