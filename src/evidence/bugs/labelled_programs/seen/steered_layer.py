# cause: extra-input-on-wrong-device|tensor-created-on-wrong-device|hard-coded-device
# guilty: vector (self.vector or direction)
# after: science-of-finetuning/diffing-toolkit#81
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        x = x.to(self.norm.weight.device)
        return x + self.down(self.up(self.norm(x)).relu())


class Tower(nn.Module):
    def __init__(self, layers=4, width=8):
        super().__init__()
        self.table = nn.Embedding(20, width).to("cuda:0")
        self.blocks = nn.ModuleList(Block(width).to(f"cuda:{n // 2}") for n in range(layers))

    def forward(self, ids):
        x = self.table(ids)
        for block in self.blocks:
            x = block(x)
        return x


def steer(layer, vector, strength, device):
    vector = (strength * vector / vector.norm()).to(device)

    def hook(module, inputs, output):
        return output + vector

    return layer.register_forward_hook(hook)


device = torch.device("cuda:0")
tower = Tower()
handle = steer(tower.blocks[3], torch.randn(8), 4.0, device)
print(tower(torch.tensor([[1, 2, 3]], device=device)).shape)
handle.remove()
