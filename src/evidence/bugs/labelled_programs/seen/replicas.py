# cause: data-parallel-replica-device|hard-coded-device
# guilty: mean
import torch
import torch.nn as nn


class ColourNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding=1)
        self.fc = nn.Linear(4, 2)

    def normalise(self, x):
        mean = torch.tensor([0.5, 0.4, 0.3]).view(1, 3, 1, 1).to("cuda:0")
        return x - mean

    def forward(self, x):
        h = self.conv(self.normalise(x)).relu().mean((2, 3))
        return self.fc(h)


def main():
    torch.manual_seed(0)
    model = nn.DataParallel(ColourNet().to("cuda:0"), device_ids=[0, 1])
    opt = torch.optim.SGD(model.parameters(), 0.01)
    for _ in range(2):
        x = torch.rand(8, 3, 6, 6).to("cuda:0")
        y = torch.randint(0, 2, (8,)).to("cuda:0")
        loss = nn.functional.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(loss.item())


if __name__ == "__main__":
    main()
