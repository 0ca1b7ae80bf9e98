# cause: cache-or-beam-state-on-wrong-device
# guilty: _grids[key] (_grids)
"""Interpolate the middle frame of short clips, one clip per GPU."""
import torch
import torch.nn as nn
import torch.nn.functional as F

_grids = {}


def backwarp(frame, flow):
    n, _, h, w = flow.shape
    key = (n, h, w)
    if key not in _grids:
        xs = torch.linspace(-1.0, 1.0, w).view(1, 1, 1, w).expand(n, 1, h, w)
        ys = torch.linspace(-1.0, 1.0, h).view(1, 1, h, 1).expand(n, 1, h, w)
        _grids[key] = torch.cat([xs, ys], dim=1).to(flow.device)
    step = flow.new_tensor([2.0 / (w - 1), 2.0 / (h - 1)]).view(1, 2, 1, 1)
    where = _grids[key] + flow * step
    return F.grid_sample(frame, where.permute(0, 2, 3, 1), padding_mode="border", align_corners=True)


class FlowHead(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(6, width, 3, padding=1),
            nn.PReLU(),
            nn.Conv2d(width, width, 3, padding=1),
            nn.PReLU(),
        )
        self.flow = nn.Conv2d(width, 4, 3, padding=1)
        self.blend = nn.Conv2d(width, 1, 1)

    def forward(self, first, last):
        feat = self.body(torch.cat([first, last], dim=1))
        to_first, to_last = self.flow(feat).chunk(2, dim=1)
        mix = torch.sigmoid(self.blend(feat))
        return mix * backwarp(first, to_first) + (1 - mix) * backwarp(last, to_last)


def process(clip, device):
    torch.manual_seed(1)
    net = FlowHead().to(device).eval()
    clip = clip.to(device)
    with torch.no_grad():
        middle = net(clip[:-1], clip[1:])
    out = clip.new_empty(clip.size(0) * 2 - 1, *clip.shape[1:])
    out[0::2] = clip
    out[1::2] = middle
    return out.cpu()


def main():
    clips = {"street": torch.rand(5, 3, 24, 32), "river": torch.rand(5, 3, 24, 32)}
    devices = ["cuda:0", "cuda:1"]
    for device, (name, clip) in zip(devices, clips.items()):
        result = process(clip, device)
        print(f"{name}: {clip.size(0)} -> {result.size(0)} frames, mean {result.mean():.4f}")


if __name__ == "__main__":
    main()
