# cause: tensor-created-on-wrong-device
# guilty: self.windows[i] (self.windows or window)
import torch
from torch import nn


class SpectralConvergence(nn.Module):
    """Magnitude loss over several resolutions."""

    def __init__(self, sizes=(64, 128, 256)):
        super().__init__()
        self.sizes = sizes
        self.windows = [torch.hann_window(n) for n in sizes]

    def magnitude(self, wave, i):
        n = self.sizes[i]
        spec = torch.stft(wave, n, hop_length=n // 4, window=self.windows[i], return_complex=True)
        return spec.abs().clamp(min=1e-5)

    def forward(self, fake, real):
        total = fake.new_zeros(())
        for i in range(len(self.sizes)):
            f, r = self.magnitude(fake, i), self.magnitude(real, i)
            total = total + (r - f).norm() / r.norm() + (f.log() - r.log()).abs().mean()
        return total / len(self.sizes)


class Upsampler(nn.Module):
    def __init__(self, mels=10, width=16):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(mels, width, 5, padding=2),
            nn.LeakyReLU(0.1),
            nn.ConvTranspose1d(width, width, 16, stride=8, padding=4),
            nn.LeakyReLU(0.1),
            nn.ConvTranspose1d(width, 1, 16, stride=8, padding=4),
            nn.Tanh(),
        )

    def forward(self, mel):
        return self.net(mel).squeeze(1)


class Trainer:
    def __init__(self, device):
        self.device = device
        self.generator = Upsampler().to(device)
        self.criterion = SpectralConvergence().to(device)
        self.optim = torch.optim.Adam(self.generator.parameters(), lr=2e-3, betas=(0.8, 0.99))

    def step(self, mel, wave):
        mel, wave = mel.to(self.device), wave.to(self.device)
        self.optim.zero_grad(set_to_none=True)
        loss = self.criterion(self.generator(mel), wave)
        loss.backward()
        self.optim.step()
        return loss.detach()


torch.manual_seed(2)
trainer = Trainer("cuda:0")
for it in range(3):
    mel = torch.randn(2, 10, 16)
    wave = torch.randn(2, 16 * 64).clamp(-1, 1)
    print(f"iter {it} loss {trainer.step(mel, wave).item():.4f}")
