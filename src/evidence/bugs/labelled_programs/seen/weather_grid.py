# cause: tensor-created-on-wrong-device
# guilty: lat
import torch
from torch import nn


class Forecast(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.lift = nn.Conv2d(2, width, 1)
        self.out = nn.Conv2d(width, 1, 1)

    def latitude_weight(self, rows):
        lat = torch.linspace(-1.5, 1.5, rows)
        return torch.cos(lat).view(1, 1, rows, 1)

    def forward(self, field):
        hidden = torch.relu(self.lift(field))
        lat = self.latitude_weight(field.shape[2])
        return self.out(hidden * lat)


net = Forecast().to("cuda:1")
print(net(torch.rand(2, 2, 8, 16, device="cuda:1")).mean().item())
