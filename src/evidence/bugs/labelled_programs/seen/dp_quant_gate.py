# cause: data-parallel-replica-device
# guilty: self.levels
import torch
import torch.nn as nn


class ChannelGate(nn.Module):
    def __init__(self, c, levels=4):
        super().__init__()
        self.fc = nn.Linear(c, c)
        self.levels = torch.linspace(0, 1, levels).cuda()

    def forward(self, x):
        g = torch.sigmoid(self.fc(x.mean((2, 3))))
        dist = (g.unsqueeze(-1) - self.levels).abs()
        hard = self.levels[dist.argmin(-1)]
        g = g + (hard - g).detach()
        return x * g[:, :, None, None]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1 = nn.Conv2d(3, 24, 3, padding=1)
        self.gate = ChannelGate(24)
        self.fc = nn.Linear(24, 10)

    def forward(self, x):
        x = self.gate(torch.relu(self.c1(x)))
        return self.fc(x.mean((2, 3)))


model = nn.DataParallel(Net().cuda())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
criterion = nn.CrossEntropyLoss().cuda()
for i in range(4):
    images = torch.rand(32, 3, 16, 16).cuda()
    labels = torch.randint(0, 10, (32,)).cuda()
    loss = criterion(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"[{i}] {loss.item():.4f}")
