# cause: hard-coded-device|tensor-created-on-wrong-device
# guilty: noise
# after: rociomer/dl-chem-101#10
import torch
from torch import nn


def best_device():
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("cpu")


class Decoder(nn.Module):
    def __init__(self, latent=4):
        super().__init__()
        self.latent = latent
        self.body = nn.Sequential(nn.Linear(latent, 16), nn.ReLU(), nn.Linear(16, 6))

    def around(self, point, count, radius=0.1):
        noise = torch.randn(count, self.latent).to(best_device())
        return self.body(point + radius * noise)


class Auto(nn.Module):
    def __init__(self):
        super().__init__()
        self.encode, self.decode = nn.Linear(6, 4), Decoder()

    def forward(self, x):
        return self.decode.around(self.encode(x), 5)


auto = Auto().to(torch.device("cuda", 1))
print(auto(torch.randn(1, 6, device="cuda:1")).std().item())
