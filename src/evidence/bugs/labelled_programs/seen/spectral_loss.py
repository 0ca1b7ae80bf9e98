# cause: hard-coded-device
# guilty: window
"""Multi-resolution spectral loss for a vocoder."""
import torch
from torch import nn

_WINDOWS = {}


def hann(size):
    if size not in _WINDOWS:
        _WINDOWS[size] = torch.hann_window(size, device="cuda" if torch.cuda.is_available() else "cpu")
    return _WINDOWS[size]


def magnitude(wave, size, hop):
    window = hann(size)
    spec = torch.stft(wave, size, hop_length=hop, window=window, return_complex=True)
    return spec.abs().clamp(min=1e-5)


class SpectralLoss(nn.Module):
    def __init__(self, sizes=(64, 128)):
        super().__init__()
        self.sizes = sizes
        self.register_buffer("weights", torch.linspace(1.0, 0.5, len(sizes)))

    def forward(self, guess, truth):
        total = guess.new_zeros(())
        for weight, size in zip(self.weights, self.sizes):
            a, b = magnitude(guess, size, size // 4), magnitude(truth, size, size // 4)
            total = total + weight * ((a - b).abs().mean() + (a.log() - b.log()).abs().mean())
        return total


class Vocoder(nn.Module):
    def __init__(self, mel=10, hop=16):
        super().__init__()
        self.up = nn.ConvTranspose1d(mel, 8, hop, stride=hop)
        self.out = nn.Conv1d(8, 1, 7, padding=3)

    def forward(self, mel):
        return torch.tanh(self.out(torch.relu(self.up(mel)))).squeeze(1)


def train(device, steps=3):
    vocoder, criterion = Vocoder().to(device), SpectralLoss().to(device)
    opt = torch.optim.AdamW(vocoder.parameters(), lr=1e-3)
    for _ in range(steps):
        mel = torch.randn(2, 10, 32).to(device)
        wave = torch.randn(2, 512).clamp(-1, 1).to(device)
        loss = criterion(vocoder(mel), wave)
        opt.zero_grad()
        loss.backward()
        opt.step()
    return loss.detach().cpu()


if __name__ == "__main__":
    torch.manual_seed(0)
    print(float(train(torch.device("cuda:1"))))
