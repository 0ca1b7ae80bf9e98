# cause: numpy-of-gpu-tensor
# guilty: feats
import numpy as np
import torch


def mel_bank(n_fft, n_mels, sr, device):
    hz = torch.linspace(0, sr / 2, n_fft // 2 + 1, device=device)
    m = torch.linspace(0, 2595 * np.log10(1 + sr / 1400), n_mels + 2, device=device)
    edge = 700 * (10 ** (m / 2595) - 1)
    up = (hz[None] - edge[:-2, None]) / (edge[1:-1] - edge[:-2])[:, None]
    down = (edge[2:, None] - hz[None]) / (edge[2:] - edge[1:-1])[:, None]
    return torch.minimum(up, down).clamp(min=0)


class LogMel(torch.nn.Module):
    def __init__(self, sr=16000, n_fft=400, hop=160, n_mels=40):
        super().__init__()
        self.n_fft, self.hop = n_fft, hop
        self.register_buffer("window", torch.hann_window(n_fft))
        self.register_buffer("bank", mel_bank(n_fft, n_mels, sr, "cpu"))

    def forward(self, wav):
        spec = torch.stft(wav, self.n_fft, self.hop, window=self.window, return_complex=True).abs() ** 2
        return (self.bank @ spec + 1e-6).log()


def summarize(feats):
    arr = feats.numpy()
    return {"mean": arr.mean(axis=-1), "p95": np.percentile(arr, 95, axis=-1)}


dev = "cuda" if torch.cuda.is_available() else "cpu"
frontend = LogMel().to(dev)
report = []
for utt in range(3):
    t = torch.arange(8000) / 16000
    wav = torch.sin(2 * torch.pi * (200 + 80 * utt) * t) + 0.05 * torch.randn(8000)
    feats = frontend(wav.to(dev))
    feats = feats - feats.mean(-1, keepdim=True)
    report.append(summarize(feats))
print(np.stack([r["p95"] for r in report]).shape)
