# cause: data-parallel-replica-device
# guilty: self.filterbank
"""Keyword spotting on raw audio, data parallel over the two cards of the box."""
import math
import torch
from torch import nn


def mel_filterbank(n_mels, n_fft, sr):
    hz = torch.linspace(0, sr / 2, n_fft // 2 + 1)
    top = 2595 * math.log10(1 + sr / 2 / 700)
    pts = 700 * (10 ** (torch.linspace(0, top, n_mels + 2) / 2595) - 1)
    up = (hz[:, None] - pts[None, :-2]) / (pts[1:-1] - pts[:-2])
    down = (pts[None, 2:] - hz[:, None]) / (pts[2:] - pts[1:-1])
    return torch.minimum(up, down).clamp(min=0)


class KeywordNet(nn.Module):
    def __init__(self, classes, device, n_fft=128, n_mels=20, sr=4000):
        super().__init__()
        self.n_fft = n_fft
        self.register_buffer("window", torch.hann_window(n_fft))
        self.filterbank = mel_filterbank(n_mels, n_fft, sr).to(device)
        self.conv = nn.Sequential(nn.Conv1d(n_mels, 32, 5, padding=2), nn.BatchNorm1d(32), nn.ReLU())
        self.gru = nn.GRU(32, 32, batch_first=True)
        self.fc = nn.Linear(32, classes)

    def features(self, wav):
        frames = wav.unfold(1, self.n_fft, self.n_fft // 2) * self.window
        power = torch.fft.rfft(frames).abs().pow(2)
        return torch.log1p(power @ self.filterbank)

    def forward(self, wav):
        x = self.conv(self.features(wav).transpose(1, 2)).transpose(1, 2)
        out, _ = self.gru(x)
        return self.fc(out.mean(1))


def tone_batch(n, sr=4000):
    y = torch.randint(0, 4, (n,))
    t = torch.arange(sr // 2) / sr
    wav = torch.sin(2 * math.pi * (200.0 + 150 * y[:, None]) * t) + 0.1 * torch.randn(n, len(t))
    return wav, y


def main():
    torch.manual_seed(0)
    device = torch.device("cuda:0")
    net = KeywordNet(4, device).to(device)
    wav, y = tone_batch(4)
    with torch.no_grad():
        net.eval()
        print("sanity", net(wav.to(device)).shape)
    model = nn.DataParallel(net, device_ids=[0, 1])
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    for step in range(4):
        model.train()
        wav, y = tone_batch(16)
        out = model(wav.to(device))
        loss = nn.functional.cross_entropy(out, y.to(device))
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(step, loss.item())


if __name__ == "__main__":
    main()
