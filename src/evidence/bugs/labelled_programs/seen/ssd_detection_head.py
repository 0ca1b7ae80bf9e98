# cause: tensor-created-on-wrong-device
# guilty: wh_pairs
# after: pytorch/vision#9414
import math

import torch
from torch import nn

class DefaultBoxGenerator(nn.Module):
    def __init__(self, aspect_ratios, min_ratio=0.15, max_ratio=0.9):
        super().__init__()
        self.aspect_ratios = aspect_ratios
        n = len(aspect_ratios)
        self.scales = [min_ratio + (max_ratio - min_ratio) * k / max(n - 1, 1) for k in range(n)] + [1.0]
        self._wh_pairs = self._generate_wh_pairs(n)

    def _generate_wh_pairs(self, num_outputs, dtype=torch.float32, device=torch.device("cpu")):
        out = []
        for k in range(num_outputs):
            s, s_next = self.scales[k], math.sqrt(self.scales[k] * self.scales[k + 1])
            pairs = [[s, s], [s_next, s_next]]
            for ar in self.aspect_ratios[k]:
                r = math.sqrt(ar)
                pairs += [[s * r, s / r], [s / r, s * r]]
            out.append(torch.as_tensor(pairs, dtype=dtype, device=device))
        return out

    def num_anchors_per_location(self):
        return [2 + 2 * len(r) for r in self.aspect_ratios]

    def _grid_default_boxes(self, grid_sizes, dtype, device):
        default_boxes = []
        for k, (fy, fx) in enumerate(grid_sizes):
            shifts_x = ((torch.arange(0, fx, device=device) + 0.5) / fx).to(dtype)
            shifts_y = ((torch.arange(0, fy, device=device) + 0.5) / fy).to(dtype)
            yy, xx = torch.meshgrid(shifts_y, shifts_x, indexing="ij")
            shifts = torch.stack((xx.reshape(-1), yy.reshape(-1)) * len(self._wh_pairs[k]), dim=-1).reshape(-1, 2)
            wh_pairs = self._wh_pairs[k].clamp(min=0, max=1).repeat(fy * fx, 1)
            default_boxes.append(torch.cat((shifts, wh_pairs), dim=1))
        return torch.cat(default_boxes, dim=0)

    def forward(self, feature_maps):
        grids = [f.shape[1:3] for f in feature_maps]
        return self._grid_default_boxes(grids, feature_maps[0].dtype, feature_maps[0].device)

class SSDHead(nn.Module):
    def __init__(self, dim, anchors):
        super().__init__()
        self.anchor_generator = DefaultBoxGenerator(anchors)
        self.reg = nn.ModuleList([nn.Linear(dim, 4 * n) for n in self.anchor_generator.num_anchors_per_location()])

    def forward(self, features):
        deltas = torch.cat([r(f).reshape(f.shape[0], -1, 4) for r, f in zip(self.reg, features)], dim=1)
        priors = self.anchor_generator(features)
        return priors[None, :, :2] + deltas[..., :2] * priors[None, :, 2:], deltas[..., 2:].exp() * priors[None, :, 2:]

if __name__ == "__main__":
    head = SSDHead(16, [[2], [2, 3]]).to("cuda")
    with torch.no_grad():
        xy, wh = head([torch.randn(2, 4, 4, 16, device="cuda"), torch.randn(2, 2, 2, 16, device="cuda")])
    print(xy.shape, wh.shape)
