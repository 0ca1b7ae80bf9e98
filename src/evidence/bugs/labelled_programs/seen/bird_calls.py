# cause: data-parallel-replica-device
# guilty: self.conv (self.conv.weight)
"""Bird call tagging on all cards of the box, with a wall clock around the forward pass."""
import functools
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


class CallNet(nn.Module):
    def __init__(self, mels=24, species=7):
        super().__init__()
        self.conv = nn.Conv1d(mels, 16, 5, padding=2)
        self.gru = nn.GRU(16, 16, batch_first=True)
        self.tag = nn.Linear(16, species)

    def forward(self, mel):
        h = F.relu(self.conv(mel))
        h, _ = self.gru(h.transpose(1, 2))
        return self.tag(h.mean(dim=1))


def timed(model, log):
    inner = model.forward

    @functools.wraps(inner)
    def wrapper(*args, **kwargs):
        begin = time.perf_counter()
        out = inner(*args, **kwargs)
        log.append(time.perf_counter() - begin)
        return out

    model.forward = wrapper
    return model


def batch(n, device):
    mel = torch.randn(n, 24, 40, device=device)
    tags = (torch.rand(n, 7, device=device) > 0.7).float()
    return mel, tags


def main():
    torch.manual_seed(13)
    device = torch.device("cuda:0")
    log = []
    model = timed(CallNet().to(device), log)
    parallel = nn.DataParallel(model)
    opt = torch.optim.Adam(parallel.parameters(), lr=1e-3)
    for step in range(3):
        mel, tags = batch(8, device)
        loss = F.binary_cross_entropy_with_logits(parallel(mel), tags)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(step, round(loss.item(), 4), f"{1e3 * sum(log):.1f} ms")
        log.clear()


if __name__ == "__main__":
    main()
