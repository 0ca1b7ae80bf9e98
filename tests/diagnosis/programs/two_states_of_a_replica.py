# cause: data-parallel-replica-device
import torch
from torch import nn


class Walker(nn.Module):
    def __init__(self, width=12, most=32, place="cuda:0"):
        super().__init__()
        self.cell = nn.GRU(5, width, batch_first=True)
        self.attend = nn.Bilinear(width, width, 3)
        self.start = torch.zeros(1, most, width, device=place)
        self.goal = torch.ones(most, width, device=place)
        self.mean = torch.full((most, width), 0.5, device=place)

    def forward(self, steps):
        count = steps.shape[0]
        out, _ = self.cell(steps, self.start[:, :count].contiguous())
        return self.attend(self.goal[:count], self.mean[:count]) + out[:, -1, :3]


model = nn.DataParallel(Walker().to("cuda:0"))
model(torch.randn(8, 4, 5).to("cuda:0")).sum().backward()
