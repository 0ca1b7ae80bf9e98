# cause: offload-hook-bypassed
# guilty: self.skip.weight
import torch
import torch.nn as nn
import torch.nn.functional as F


class Streamer:
    """Keeps layers in host memory and brings each one in for its own forward."""

    def __init__(self, device):
        self.device = torch.device(device)
        self.handles = []

    def attach(self, module):
        self.handles.append(module.register_forward_pre_hook(self._fetch, with_kwargs=True))
        self.handles.append(module.register_forward_hook(self._release))

    def _fetch(self, module, args, kwargs):
        module.to(self.device, non_blocking=True)
        args = tuple(a.to(self.device) if torch.is_tensor(a) else a for a in args)
        return args, kwargs

    def _release(self, module, args, output):
        module.to("cpu")
        return output


class ChannelNorm(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.gamma = nn.Parameter(torch.ones(c))

    def forward(self, x):
        return F.normalize(x, dim=1) * self.gamma.view(1, -1, 1, 1) * x.size(1) ** 0.5


class UpBlock(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.norm = ChannelNorm(cin)
        self.conv = nn.Conv2d(cin, cout, 3, padding=1)
        self.skip = nn.Conv2d(cin, cout, 1, bias=False)

    def forward(self, x):
        x = F.interpolate(x, scale_factor=2)
        h = self.conv(F.silu(self.norm(x)))
        return h + F.conv2d(x, self.skip.weight)


class Decoder(nn.Module):
    def __init__(self, z=8):
        super().__init__()
        self.inp = nn.Conv2d(z, 32, 1)
        self.up = nn.ModuleList([UpBlock(32, 24), UpBlock(24, 16)])
        self.rgb = nn.Conv2d(16, 3, 3, padding=1)

    def forward(self, z):
        h = self.inp(z)
        for u in self.up:
            h = u(h)
        return torch.tanh(self.rgb(h))


def prepare(model, device):
    s = Streamer(device)
    for m in model.modules():
        if not list(m.children()):
            s.attach(m)
    return s


decoder = Decoder().eval()
streamer = prepare(decoder, "cuda")
with torch.inference_mode():
    for seed in range(2):
        torch.manual_seed(seed)
        img = decoder(torch.randn(1, 8, 4, 4).to(streamer.device))
        print(img.shape, img.mean().item())
