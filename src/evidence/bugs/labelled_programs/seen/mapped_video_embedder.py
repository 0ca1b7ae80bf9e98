# cause: device-map-incomplete-or-wrong|block-split-across-devices
# guilty: self.temporal_pos (model.temporal_pos)
# line: 41
# repair: in fill_plan put directly owned parameters on the first card (plan[name] = cards[0]) where patch puts its output, in place of the last one OR write tokens + self.temporal_pos.to(tokens.device)
import os
import tempfile

import torch
import torch.nn as nn
from accelerate import init_empty_weights, load_checkpoint_and_dispatch
from safetensors.torch import save_file


class TemporalBlock(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.attn = nn.MultiheadAttention(dim, 4, batch_first=True)
        self.ff = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x):
        h = self.norm(x)
        x = x + self.attn(h, h, h, need_weights=False)[0]
        return x + self.ff(x)


class ClipEmbedder(nn.Module):
    """Embeds a clip of frames for near-duplicate search."""

    def __init__(self, dim=32, frames=6, depth=4):
        super().__init__()
        self.patch = nn.Conv2d(3, dim, 8, stride=8)
        self.temporal_pos = nn.Parameter(torch.zeros(1, frames, dim))
        self.blocks = nn.ModuleList(TemporalBlock(dim) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)
        self.proj = nn.Linear(dim, 16, bias=False)

    def forward(self, clip):
        b, t = clip.shape[:2]
        tokens = self.patch(clip.flatten(0, 1)).mean((2, 3)).view(b, t, -1)
        tokens = tokens + self.temporal_pos
        for block in self.blocks:
            tokens = block(tokens)
        return nn.functional.normalize(self.proj(self.norm(tokens).mean(1)), dim=-1)


def fill_plan(model, cards):
    """Whole blocks in order; everything that is no block goes by what is left."""
    depth = len(model.blocks)
    plan = {"patch": cards[0]}
    for i in range(depth):
        plan[f"blocks.{i}"] = cards[i * len(cards) // depth]
    for name, _ in list(model.named_children()) + list(model.named_parameters(recurse=False)):
        if name != "blocks" and name not in plan:
            plan[name] = cards[-1]
    return plan


def write_checkpoint(folder):
    path = os.path.join(folder, "clip.safetensors")
    save_file({k: v.contiguous() for k, v in ClipEmbedder().state_dict().items()}, path)
    return path


@torch.no_grad()
def nearest(model, clips):
    codes = torch.cat([model(clip[None]) for clip in clips])
    sims = codes @ codes.t()
    sims.fill_diagonal_(-1.0)
    return sims.max(1)


def main():
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        path = write_checkpoint(folder)
        with init_empty_weights():
            model = ClipEmbedder()
        plan = fill_plan(model, ["cuda:0", "cuda:1"])
        model = load_checkpoint_and_dispatch(model, path, device_map=plan).eval()
    print(plan)
    clips = torch.randn(4, 6, 3, 32, 32).to("cuda:0")
    score, index = nearest(model, clips)
    print(score.tolist(), index.tolist())


if __name__ == "__main__":
    main()
