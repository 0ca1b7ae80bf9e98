import torch
from torch import nn


class Warp:
    """Bends images by a flow."""

    def _grid(self, height, width):
        ys, xs = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
        return torch.stack([xs, ys]).float()[None]

    def __call__(self, image, flow):
        grid = self._grid(*image.shape[-2:]) + flow
        return nn.functional.grid_sample(image, grid.permute(0, 2, 3, 1), align_corners=True)
