# cause: tensor-created-on-wrong-device
# guilty: torch.hann_window(self.win) (window)
import math
import torch
import torch.nn as nn


def mel_matrix(n_freq, n_mels, sr=16000):
    hz = torch.linspace(0, sr / 2, n_freq)
    top = 2595 * math.log10(1 + sr / 2 / 700)
    pts = 700 * (10 ** (torch.linspace(0, top, n_mels + 2) / 2595) - 1)
    up = (hz[None] - pts[:-2, None]) / (pts[1:-1] - pts[:-2])[:, None]
    down = (pts[2:, None] - hz[None]) / (pts[2:] - pts[1:-1])[:, None]
    return torch.minimum(up, down).clamp(min=0)


class LogMel(nn.Module):
    def __init__(self, n_fft=512, win=400, hop=160, n_mels=40):
        super().__init__()
        self.n_fft, self.win, self.hop = n_fft, win, hop
        self.register_buffer("mel", mel_matrix(n_fft // 2 + 1, n_mels))

    def forward(self, wav):
        spec = torch.stft(wav, self.n_fft, self.hop, self.win, window=torch.hann_window(self.win), return_complex=True)
        power = spec.abs() ** 2
        return (self.mel @ power + 1e-6).log()


class SpeakerNet(nn.Module):
    def __init__(self, n_speakers=12):
        super().__init__()
        self.prep = LogMel()
        self.conv = nn.Conv1d(40, 32, 5)
        self.fc = nn.Linear(64, n_speakers)

    def forward(self, wav):
        x = self.prep(wav.squeeze(1))
        x = torch.relu(self.conv(x))
        return self.fc(torch.cat([x.mean(-1), x.std(-1)], dim=1))


device = "cuda:1"
net = SpeakerNet().to(device)
wav = torch.randn(4, 1, 16000)
spk = torch.randint(0, 12, (4,))
loss = nn.functional.cross_entropy(net(wav.to(device)), spk.to(device))
loss.backward()
print("loss", loss.item())
