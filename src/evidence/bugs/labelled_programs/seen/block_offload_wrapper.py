# cause: extra-input-on-wrong-device|block-split-across-devices
# guilty: shift (temb, scale)
# line: 19
# repair: in OnDevice.forward move the keyword arguments as well, `kwargs = {k: v.to(self.device) if torch.is_tensor(v) else v for k, v in kwargs.items()}`
"""Run the blocks of a diffusion transformer over two cards with a wrapper per block."""
import torch
import torch.nn as nn


class ModulatedBlock(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim, elementwise_affine=False)
        self.attn = nn.MultiheadAttention(dim, 4, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.SiLU(), nn.Linear(2 * dim, dim))

    def modulate(self, x, temb):
        shift, scale = temb.unsqueeze(1).chunk(2, dim=-1)
        return torch.addcmul(shift, x, 1 + scale)

    def forward(self, x, temb=None):
        h = self.modulate(self.norm(x), temb)
        x = x + self.attn(h, h, h, need_weights=False)[0]
        return x + self.mlp(self.norm(x))


class OnDevice(nn.Module):
    """Holds a block on one device and brings its input there."""

    def __init__(self, block, device):
        super().__init__()
        self.block = block.to(device)
        self.device = torch.device(device)

    def forward(self, *args, **kwargs):
        args = [a.to(self.device) if torch.is_tensor(a) else a for a in args]
        return self.block(*args, **kwargs)


class Denoiser(nn.Module):
    def __init__(self, channels=8, dim=32, depth=6):
        super().__init__()
        self.proj_in = nn.Linear(channels, dim)
        self.time = nn.Sequential(nn.Linear(1, dim), nn.SiLU(), nn.Linear(dim, 2 * dim))
        self.blocks = nn.ModuleList(ModulatedBlock(dim) for _ in range(depth))
        self.proj_out = nn.Linear(dim, channels)

    def forward(self, x, t):
        temb = self.time(t[:, None])
        x = self.proj_in(x)
        lead = x.device
        for block in self.blocks:
            x = block(x, temb=temb)
        return self.proj_out(x.to(lead))


def parallelize(model, devices):
    model.to(devices[0])
    per = -(-len(model.blocks) // len(devices))
    for i, block in enumerate(model.blocks):
        model.blocks[i] = OnDevice(block, devices[i // per])
    return model


class Sampler:
    def __init__(self, model, steps):
        self.model = model
        self.steps = steps

    @torch.no_grad()
    def __call__(self, noise):
        x = noise
        for k in range(self.steps, 0, -1):
            t = torch.full((x.shape[0],), k / self.steps, device=x.device)
            x = x - self.model(x, t) / self.steps
        return x


if __name__ == "__main__":
    torch.manual_seed(0)
    model = parallelize(Denoiser().eval(), ["cuda:0", "cuda:1"])
    latents = Sampler(model, steps=4)(torch.randn(2, 16, 8, device="cuda:0"))
    print("latents", latents.mean().item())
