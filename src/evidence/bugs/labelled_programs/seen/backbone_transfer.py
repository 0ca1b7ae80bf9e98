# cause: checkpoint-map-location
# guilty: self.stem
"""Pretrain an encoder on the second card, then fit a forecaster around it on the first."""
import tempfile
from pathlib import Path

import torch
from torch import nn


class SeriesEncoder(nn.Module):
    def __init__(self, channels=4, width=16):
        super().__init__()
        self.stem = nn.Conv1d(channels, width, 5, padding=2)
        self.body = nn.Conv1d(width, width, 3, padding=2, dilation=2)

    def forward(self, x):
        return self.body(torch.relu(self.stem(x)))


class Forecaster(nn.Module):
    def __init__(self, horizon=6, width=16):
        super().__init__()
        self.encoder = SeriesEncoder(width=width)
        self.head = nn.Linear(width, horizon)

    def forward(self, x):
        features = self.encoder(x)
        return self.head(features.mean(-1))


def pretrain(path, device):
    encoder = SeriesEncoder().to(device)
    decoder = nn.Conv1d(16, 4, 1).to(device)
    opt = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=1e-3)
    for _ in range(3):
        clean = torch.randn(8, 4, 48, device=device)
        noisy = clean + 0.1 * torch.randn_like(clean)
        loss = (decoder(encoder(noisy)) - clean).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    torch.save(encoder.state_dict(), path)


def load_backbone(model, path):
    weights = torch.load(path, weights_only=True)
    missing, unexpected = model.encoder.load_state_dict(weights, assign=True)
    assert not missing and not unexpected
    return model


def finetune(path, device):
    model = load_backbone(Forecaster().to(device), path)
    for p in model.encoder.parameters():
        p.requires_grad_(False)
    opt = torch.optim.Adam(model.head.parameters(), lr=1e-2)
    for _ in range(3):
        past, future = torch.randn(8, 4, 48), torch.randn(8, 6)
        past, future = past.to(device), future.to(device)
        loss = (model(past) - future).abs().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    return loss.item()


if __name__ == "__main__":
    torch.manual_seed(0)
    target = Path(tempfile.mkdtemp()) / "encoder.pt"
    pretrain(target, "cuda:1")
    print(finetune(target, torch.device("cuda:0")))
