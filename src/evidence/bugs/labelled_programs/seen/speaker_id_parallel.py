# cause: data-parallel-replica-device|tensor-created-on-wrong-device|hard-coded-device
# guilty: self.filters
"""Speaker identification on raw audio, batches over all GPUs with DataParallel."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def triangles(bins, mels):
    centres = torch.linspace(0, bins - 1, mels + 2)
    freqs = torch.arange(bins).unsqueeze(1).float()
    rising = (freqs - centres[:-2]) / (centres[1:-1] - centres[:-2])
    falling = (centres[2:] - freqs) / (centres[2:] - centres[1:-1])
    return torch.minimum(rising, falling).clamp_min(0)


class MelFront(nn.Module):
    def __init__(self, n_fft=256, hop=128, mels=24, device="cuda"):
        super().__init__()
        self.n_fft, self.hop = n_fft, hop
        self.register_buffer("window", torch.hann_window(n_fft))
        self.filters = triangles(n_fft // 2 + 1, mels).to(device)

    def forward(self, wave):
        spec = torch.stft(wave, self.n_fft, self.hop, window=self.window, return_complex=True)
        power = spec.abs().pow(2).transpose(1, 2)
        return torch.log(power @ self.filters + 1e-5)


class SpeakerNet(nn.Module):
    def __init__(self, speakers, mels=24, dim=48):
        super().__init__()
        self.front = MelFront(mels=mels)
        self.conv = nn.Sequential(nn.Conv1d(mels, dim, 5, padding=2), nn.ReLU(),
                                  nn.Conv1d(dim, dim, 5, padding=2), nn.ReLU())
        self.embed = nn.Linear(2 * dim, 32)
        self.classify = nn.Linear(32, speakers)

    def forward(self, wave):
        h = self.conv(self.front(wave).transpose(1, 2))
        stats = torch.cat([h.mean(-1), h.std(-1)], dim=1)
        return self.classify(F.relu(self.embed(stats)))


def batches(n, speakers, batch=16):
    for _ in range(n):
        labels = torch.randint(0, speakers, (batch,))
        t = torch.arange(4000) / 16000
        wave = torch.sin(2 * torch.pi * (200 + 60 * labels[:, None]) * t) + 0.1 * torch.randn(batch, 4000)
        yield wave.to("cuda:0"), labels.to("cuda:0")


def main():
    torch.manual_seed(0)
    model = nn.DataParallel(SpeakerNet(speakers=6).to("cuda:0"), device_ids=[0, 1])
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step, (wave, labels) in enumerate(batches(4, speakers=6)):
        loss = F.cross_entropy(model(wave), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("step", step, "loss", round(loss.item(), 3))


if __name__ == "__main__":
    main()
