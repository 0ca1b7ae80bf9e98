# cause: tensor-created-on-wrong-device
# guilty: self.bank (bank)
import argparse
import math
import torch
import torch.nn as nn


def mel_matrix(n_freq, n_mel):
    edges = torch.linspace(0, n_freq - 1, n_mel + 2)
    grid = torch.arange(n_freq).float()[:, None]
    up = (grid - edges[:-2]) / (edges[1:-1] - edges[:-2])
    down = (edges[2:] - grid) / (edges[2:] - edges[1:-1])
    return torch.minimum(up, down).clamp(min=0)


class FrontEnd(nn.Module):
    def __init__(self, n_fft=64, n_mel=10):
        super().__init__()
        self.n_fft = n_fft
        self.register_buffer("window", torch.hann_window(n_fft))
        self.bank = mel_matrix(n_fft // 2 + 1, n_mel)

    def forward(self, wav):
        spec = torch.stft(wav, self.n_fft, 32, window=self.window, return_complex=True)
        power = spec.abs().pow(2).transpose(1, 2)
        mel = power @ self.bank
        return (mel + 1e-6).log()


class Speech(nn.Module):
    def __init__(self, n_mel=10, vocab=7):
        super().__init__()
        self.front = FrontEnd(n_mel=n_mel)
        self.rnn = nn.GRU(n_mel, 16, batch_first=True)
        self.out = nn.Linear(16, vocab)

    def forward(self, wav):
        h, _ = self.rnn(self.front(wav))
        return self.out(h).log_softmax(-1)


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--device", default="cuda:0")
    ap.add_argument("--steps", type=int, default=2)
    args = ap.parse_args()
    model = Speech().to(args.device)
    for _ in range(args.steps):
        wav = torch.sin(torch.arange(2 * 800, device=args.device).view(2, 800) * math.pi / 20)
        lp = model(wav)
        print(lp.shape, lp.mean().item())
