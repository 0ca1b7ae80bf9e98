# cause: tensor-created-on-wrong-device
# guilty: self.stft_kwargs["window"] (window)
"""Small CTC recogniser on synthetic waveforms."""
import math
import torch
from torch import nn
import torch.nn.functional as F


class LogMel(nn.Module):
    def __init__(self, n_fft=256, hop=80, n_mels=20, sr=8000):
        super().__init__()
        self.n_fft, self.hop = n_fft, hop
        self.register_buffer("fb", self._bank(n_fft // 2 + 1, n_mels, sr))
        self.stft_kwargs = dict(n_fft=n_fft, hop_length=hop, return_complex=True,
                                window=torch.hann_window(n_fft))

    @staticmethod
    def _bank(n_freq, n_mels, sr):
        hz = torch.linspace(0, sr / 2, n_freq)
        mel = 2595 * torch.log10(1 + hz / 700)
        centres = torch.linspace(mel[1].item(), mel[-1].item(), n_mels)
        width = centres[1] - centres[0]
        return F.relu(1 - (mel[:, None] - centres[None]).abs() / width)

    def forward(self, wav):
        spec = torch.stft(wav, **self.stft_kwargs).abs().pow(2)
        mel = spec.transpose(1, 2) @ self.fb
        return mel.clamp_min(1e-6).log()


class Recogniser(nn.Module):
    def __init__(self, vocab=12, dim=48):
        super().__init__()
        self.frontend = LogMel()
        self.sub = nn.Conv1d(20, dim, 5, stride=2, padding=2)
        self.rnn = nn.GRU(dim, dim, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * dim, vocab)

    def forward(self, wav):
        x = self.frontend(wav)
        x = self.sub(x.transpose(1, 2)).transpose(1, 2)
        x, _ = self.rnn(F.gelu(x))
        return self.out(x).log_softmax(-1)


def make_batch(n=4, secs=0.5, sr=8000):
    t = torch.arange(int(secs * sr)) / sr
    f = torch.randint(200, 1800, (n, 1)).float()
    wav = torch.sin(2 * math.pi * f * t) + 0.05 * torch.randn(n, t.numel())
    tgt = torch.randint(1, 12, (n, 5))
    return wav, tgt


def main():
    torch.manual_seed(3)
    dev = torch.device("cuda:0")
    net = Recogniser().to(dev)
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
    for step in range(3):
        wav, tgt = (t.to(dev) for t in make_batch())
        lp = net(wav)
        lens = torch.full((wav.size(0),), lp.size(1), dtype=torch.long)
        loss = F.ctc_loss(lp.transpose(0, 1), tgt, lens, torch.full_like(lens, 5))
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(step, round(loss.item(), 4))


if __name__ == "__main__":
    main()
