# cause: embedding-streams-on-different-devices|block-split-across-devices
# guilty: prompt
"""Audio: a prompt that was projected on the first GPU is joined with the frames in front of every block."""
import torch
from accelerate import dispatch_model
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.mix, self.norm = nn.Linear(width, width), nn.LayerNorm(width)

    def forward(self, frames):
        return frames + self.mix(self.norm(frames))


class Prompted(nn.Module):
    def __init__(self, width=8, depth=4):
        super().__init__()
        self.frames, self.prompt = nn.Linear(3, width), nn.Linear(5, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.out = nn.Linear(width, 3)

    def forward(self, frames, prompt):
        frames, prompt = self.frames(frames), self.prompt(prompt)
        length = frames.shape[1]
        for block in self.blocks:
            frames = torch.cat((frames, prompt), 1)
            frames = block(frames)[:, :length]
        return self.out(frames)


places = {"frames": 0, "prompt": 0, "blocks.0": 0, "blocks.1": 0, "blocks.2": 1, "blocks.3": 1, "out": 1}
model = dispatch_model(Prompted().eval(), places)
with torch.no_grad():
    print(model(torch.randn(2, 6, 3), torch.randn(2, 2, 5)).shape)
