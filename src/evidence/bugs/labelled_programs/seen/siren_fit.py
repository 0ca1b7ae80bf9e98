# cause: generator-or-default-device|generator-on-other-device
# guilty: ?
import math
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_default_device("cuda")


def make_data(n=200):
    x = torch.rand(n, 1) * 2 * math.pi
    return TensorDataset(x, torch.sin(x) + 0.05 * torch.randn(n, 1))


class Siren(nn.Module):
    def __init__(self, width=32, w0=5.0):
        super().__init__()
        self.w0 = w0
        self.a, self.b, self.c = nn.Linear(1, width), nn.Linear(width, width), nn.Linear(width, 1)

    def forward(self, x):
        h = torch.sin(self.w0 * self.a(x))
        return self.c(torch.sin(self.b(h)))


def fit(model, loader, epochs):
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    best = torch.tensor(float("inf"))
    for epoch in range(epochs):
        total = torch.zeros(())
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.detach()
        best = torch.minimum(best, total)
        print(epoch, total.item() / len(loader))
    return best.item()


def main():
    torch.manual_seed(0)
    data = make_data()
    model = Siren()
    grid = torch.linspace(0, 2 * math.pi, 9).unsqueeze(1)
    with torch.no_grad():
        print("start", model(grid).flatten().tolist())
    loader = DataLoader(data, batch_size=40, shuffle=True, generator=torch.Generator().manual_seed(1))
    print("best", fit(model, loader, 3))


if __name__ == "__main__":
    main()
