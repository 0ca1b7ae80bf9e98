import torch


def march(rays, field, steps=4):
    kind = str(rays.device).split(":")[0]
    depths = torch.linspace(0.1, 1.0, steps, device=kind)
    points = rays[:, None, :] * depths[None, :, None]
    return field(points).mean(1)
