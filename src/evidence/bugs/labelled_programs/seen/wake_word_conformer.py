# cause: hard-coded-device|input-not-on-embedding-device
# guilty: x.to(self.device) (x)
# line: 32
# repair: in HalfStepFeedForward.forward drop the move and use x as it comes: return self.net(x) (the attribute set at construction does not follow model.to) OR send x to self.net[0].weight.device
"""Wake-word spotting: a small conformer is trained on one card and then handed to a listener."""
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class SpotterConfig:
    mels: int = 24
    dim: int = 32
    blocks: int = 2
    words: int = 5
    device: str = "cuda:0"


class HalfStepFeedForward(nn.Module):
    def __init__(self, dim, device, expansion=2):
        super().__init__()
        self.device = torch.device(device)
        self.net = nn.Sequential(
            nn.LayerNorm(dim), nn.Linear(dim, dim * expansion), nn.SiLU(), nn.Dropout(0.1),
            nn.Linear(dim * expansion, dim),
        )

    def forward(self, x):
        return self.net(x.to(self.device))


class DepthwiseModule(nn.Module):
    def __init__(self, dim, kernel=7):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.expand = nn.Conv1d(dim, dim * 2, 1)
        self.depthwise = nn.Conv1d(dim, dim, kernel, padding=kernel // 2, groups=dim)
        self.project = nn.Conv1d(dim, dim, 1)

    def forward(self, x):
        h = F.glu(self.expand(self.norm(x).transpose(1, 2)), dim=1)
        return self.project(F.silu(self.depthwise(h))).transpose(1, 2)


class ConformerBlock(nn.Module):
    def __init__(self, dim, device):
        super().__init__()
        self.first = HalfStepFeedForward(dim, device)
        self.attn = nn.MultiheadAttention(dim, 4, batch_first=True)
        self.conv = DepthwiseModule(dim)
        self.second = HalfStepFeedForward(dim, device)
        self.norm = nn.LayerNorm(dim)

    def forward(self, x):
        x = x + 0.5 * self.first(x)
        x = x + self.attn(x, x, x, need_weights=False)[0]
        x = x + self.conv(x)
        x = x + 0.5 * self.second(x)
        return self.norm(x)


class WakeWordSpotter(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.front = nn.Conv1d(cfg.mels, cfg.dim, 5, stride=2, padding=2)
        self.blocks = nn.ModuleList(ConformerBlock(cfg.dim, cfg.device) for _ in range(cfg.blocks))
        self.words = nn.Linear(cfg.dim, cfg.words)

    def forward(self, mels):
        x = F.silu(self.front(mels)).transpose(1, 2)
        for block in self.blocks:
            x = block(x)
        return self.words(x.mean(1))


def train(cfg, steps=4):
    model = WakeWordSpotter(cfg).to(cfg.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(steps):
        mels = torch.randn(8, cfg.mels, 60, device=cfg.device)
        words = torch.randint(0, cfg.words, (8,), device=cfg.device)
        loss = F.cross_entropy(model(mels), words)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("train loss", round(loss.item(), 3))
    return model


class Listener:
    """Runs next to the trainer, on the card that is free."""

    def __init__(self, model, device, threshold=0.3):
        self.device = torch.device(device)
        self.model = model.to(self.device).eval()
        self.threshold = threshold

    @torch.inference_mode()
    def hear(self, window):
        probs = self.model(window[None].to(self.device)).softmax(-1)[0]
        score, word = probs.max(0)
        return word.item() if score.item() > self.threshold else None


def main():
    torch.manual_seed(0)
    cfg = SpotterConfig()
    model = train(cfg)
    listener = Listener(model, "cuda:1")
    stream = torch.randn(cfg.mels, 240)
    for start in range(0, 240, 60):
        print(start, listener.hear(stream[:, start:start + 60]))


if __name__ == "__main__":
    main()
