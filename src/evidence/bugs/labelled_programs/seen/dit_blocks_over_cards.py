# cause: extra-input-on-wrong-device
# guilty: vec (emb or nn.functional.silu(emb) or input)
# after: FearL0rd/ComfyUI-ParallelAnything#3
import torch
from torch import nn

class Modulation(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.lin = nn.Linear(dim, 3 * dim)
    def forward(self, emb):
        return self.lin(nn.functional.silu(emb))[:, None].chunk(3, dim=-1)

class DoubleBlock(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.mod, self.norm = Modulation(dim), nn.LayerNorm(dim, elementwise_affine=False)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))
    def forward(self, img, vec=None):
        shift, scale, gate = self.mod(vec)
        return img + gate * self.mlp((1 + scale) * self.norm(img) + shift)

class ParallelBlock(nn.Module):
    """Runs a block on its own card and hands the activations on."""
    def __init__(self, block, device):
        super().__init__()
        self.block, self.device = block.to(device), torch.device(device)
    def forward(self, x, *args, **kwargs):
        x = x.to(self.device)
        return self.block(x, *args, **kwargs)

class DiT(nn.Module):
    def __init__(self, dim=32, depth=4, channels=8):
        super().__init__()
        self.img_in, self.time_in = nn.Linear(channels, dim), nn.Linear(16, dim)
        self.blocks = nn.ModuleList([DoubleBlock(dim) for _ in range(depth)])
        self.final_layer = nn.Linear(dim, channels)
    def timestep_embedding(self, t, half=8):
        freqs = torch.exp(-torch.arange(half, device=t.device) * 0.9)
        args = t[:, None] * freqs[None]
        return torch.cat([args.cos(), args.sin()], -1)
    def forward(self, x, timesteps):
        img, vec = self.img_in(x), self.time_in(self.timestep_embedding(timesteps))
        for block in self.blocks:
            img = block(img, vec=vec)
        return self.final_layer(img.to(x.device))

def setup_pipeline(model, devices, weights):
    lead, total, done = devices[0], sum(weights), 0.0
    model.to(lead)
    bounds = [sum(weights[:i + 1]) / total for i in range(len(weights))]
    for i, block in enumerate(model.blocks):
        share = (i + 0.5) / len(model.blocks)
        device = next(d for d, b in zip(devices, bounds) if share <= b)
        model.blocks[i] = ParallelBlock(block, device)
    return model

@torch.no_grad()
def sample(model, device, steps=3):
    x = torch.randn(1, 10, 8, device=device)
    sigmas = torch.linspace(1, 0, steps + 1)
    for a, b in zip(sigmas[:-1], sigmas[1:]):
        x = x + (b - a).item() * model(x, torch.full((1,), a.item(), device=device))
    return x

if __name__ == "__main__":
    print(sample(setup_pipeline(DiT(), ["cuda:0", "cuda:1"], weights=[50, 50]), "cuda:0").std())
