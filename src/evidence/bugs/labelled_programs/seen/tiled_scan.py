# cause: tensor-created-on-wrong-device
# guilty: importance (self.importance)
# after: ProjectNeura/MIPCandy#33
import torch
from torch import nn


def gaussian(size, sigma=0.25):
    axis = torch.linspace(-1, 1, size)
    line = torch.exp(-axis.square() / (2 * sigma**2))
    return line[:, None] * line[None]


@torch.no_grad()
def tiled(image, model, size, step):
    b, _, h, w = image.shape
    canvas = torch.zeros(b, 2, h, w, device=image.device)
    total = torch.zeros(1, 1, h, w, device=image.device)
    importance = gaussian(size)
    for y in range(0, h - size + 1, step):
        for x in range(0, w - size + 1, step):
            out = model(image[..., y : y + size, x : x + size])
            canvas[..., y : y + size, x : x + size] += out * importance
            total[..., y : y + size, x : x + size] += importance
    return canvas / total


device = torch.device("cuda:0")
model = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 2, 1)).to(device).eval()
print(tiled(torch.randn(1, 1, 16, 16, device=device), model, 8, 4).shape)
