# cause: extra-input-on-wrong-device
# guilty: grid (grid[..., 0], batch["grid"], the grid of the processor)
# line: 54
# repair: in Inputs.to move every tensor of the batch, not only the keys of MODEL_INPUTS (add "grid" to MODEL_INPUTS) OR in GridPositions.forward: grid = grid.to(self.time.weight.device)
"""Video classifier with a processor that returns patches and their grid positions."""
from collections import UserDict

import torch
import torch.nn as nn
import torch.nn.functional as F

MODEL_INPUTS = ("patches", "mask", "labels")


class Inputs(UserDict):
    """What the processor returns; behaves like a dict with a move method."""

    def to(self, device):
        for key in MODEL_INPUTS:
            if key in self.data:
                self.data[key] = self.data[key].to(device)
        return self


class VideoProcessor:
    def __init__(self, patch=8, frames_per_step=2):
        self.patch, self.step = patch, frames_per_step

    def cut(self, video):
        t, c, h, w = video.shape
        p, s = self.patch, self.step
        grid = (t // s, h // p, w // p)
        x = video.view(grid[0], s, c, grid[1], p, grid[2], p).permute(0, 3, 5, 1, 2, 4, 6)
        return x.reshape(-1, s * c * p * p), torch.cartesian_prod(*(torch.arange(n) for n in grid))

    def __call__(self, videos, labels=None):
        cut = [self.cut(v) for v in videos]
        width = max(len(p) for p, _ in cut)
        pad = [width - len(p) for p, _ in cut]
        data = {"patches": torch.stack([F.pad(p, (0, 0, 0, n)) for (p, _), n in zip(cut, pad)]),
                "grid": torch.stack([F.pad(g, (0, 0, 0, n)) for (_, g), n in zip(cut, pad)]),
                "mask": torch.stack([torch.arange(width) < len(p) for p, _ in cut])}
        if labels is not None:
            data["labels"] = torch.tensor(labels)
        return Inputs(data)


class GridPositions(nn.Module):
    def __init__(self, dim, sizes=(8, 8, 8)):
        super().__init__()
        self.time, self.row, self.col = (nn.Embedding(n, dim) for n in sizes)

    def forward(self, grid):
        return self.time(grid[..., 0]) + self.row(grid[..., 1]) + self.col(grid[..., 2])


class VideoClassifier(nn.Module):
    def __init__(self, dim=32, classes=4, patch_dim=2 * 3 * 64):
        super().__init__()
        self.proj = nn.Linear(patch_dim, dim)
        self.positions = GridPositions(dim)
        self.lower = nn.TransformerEncoderLayer(dim, 4, 64, batch_first=True)
        self.upper = nn.TransformerEncoderLayer(dim, 4, 64, batch_first=True)
        self.head = nn.Linear(dim, classes)

    def split(self, first, second):
        for m in (self.proj, self.positions, self.lower):
            m.to(first)
        for m in (self.upper, self.head):
            m.to(second)
        self.second = second
        return self

    def forward(self, patches, grid, mask, labels=None):
        x = self.proj(patches) + self.positions(grid)
        x = self.lower(x, src_key_padding_mask=~mask)
        x, mask = x.to(self.second), mask.to(self.second)
        x = self.upper(x, src_key_padding_mask=~mask)
        logits = self.head((x * mask.unsqueeze(-1)).sum(1) / mask.sum(1, keepdim=True))
        loss = None if labels is None else F.cross_entropy(logits, labels.to(logits.device))
        return loss, logits


if __name__ == "__main__":
    processor, model = VideoProcessor(), VideoClassifier().split("cuda:0", "cuda:1")
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(2):
        clips = [torch.randn(4, 3, 16, 16), torch.randn(6, 3, 16, 16)]
        loss, _ = model(**processor(clips, labels=[1, 3]).to("cuda:0"))
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(loss.item())
