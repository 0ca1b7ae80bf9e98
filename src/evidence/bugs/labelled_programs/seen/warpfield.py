# cause: tensor-created-on-wrong-device|cache-or-beam-state-on-wrong-device
# guilty: identity_grid(*moving.shape[-2:]) (identity_grid(...))
from functools import lru_cache
import torch
import torch.nn as nn
import torch.nn.functional as F


@lru_cache(maxsize=None)
def identity_grid(h, w):
    return F.affine_grid(torch.eye(2, 3).unsqueeze(0), (1, 1, h, w), align_corners=False)


class Warp(nn.Module):
    def __init__(self):
        super().__init__()
        self.flow = nn.Conv2d(2, 2, 3, padding=1)

    def forward(self, moving, fixed):
        flow = self.flow(torch.cat([moving, fixed], 1)).permute(0, 2, 3, 1)
        grid = identity_grid(*moving.shape[-2:]) + 0.1 * flow.tanh()
        return F.grid_sample(moving, grid, align_corners=False)


def register(device, steps=3):
    net = Warp().to(device)
    opt = torch.optim.Adam(net.parameters(), 1e-2)
    moving, fixed = torch.rand(2, 1, 8, 8, device=device).chunk(2)
    for _ in range(steps):
        loss = (net(moving, fixed) - fixed).abs().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    return loss.item()


torch.manual_seed(0)
print(register("cuda:1"))
