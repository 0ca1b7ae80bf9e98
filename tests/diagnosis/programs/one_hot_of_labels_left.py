# cause: extra-input-on-wrong-device
import torch
import torch.nn.functional as F
from torch import nn


class Decoder(nn.Module):
    def __init__(self, z=4, k=3):
        super().__init__()
        self.k, self.net = k, nn.Sequential(nn.Linear(z + k, 16), nn.ReLU(), nn.Linear(16, 6))

    def forward(self, z, label):
        code = F.one_hot(label, self.k).float()
        return self.net(torch.cat([z, code], dim=1))


device = torch.device("cuda:0")
dec = Decoder().to(device)
labels = torch.randint(0, 3, (5,))
with torch.no_grad():
    print(dec(torch.randn(5, 4, device=device), labels).shape)
