# cause: offload-hook-bypassed|weights-moved-away-by-manager
# guilty: self.quantizer.codes.weight (codes, the code table)
# line: 62
# repair: go through the hooked module, so that its hook brings it back: give Quantizer.forward the look-up (self.quantizer(indices, lookup=True)) in place of F.embedding on its weight OR move what is read: F.embedding(indices, self.quantizer.codes.weight.to(indices.device)) OR decode before the vocoder runs
import torch
import torch.nn as nn
import torch.nn.functional as F
from accelerate import cpu_offload_with_hook


class Quantizer(nn.Module):
    """Nearest code of each frame."""

    def __init__(self, n_codes=64, dim=16):
        super().__init__()
        self.pre = nn.Conv1d(1, dim, 8, stride=8)
        self.codes = nn.Embedding(n_codes, dim)

    def forward(self, wave):
        frames = self.pre(wave).transpose(1, 2)
        return torch.cdist(frames, self.codes.weight[None]).argmin(-1)


class Denoiser(nn.Module):
    """Proposes cleaner code indices from their neighbourhood."""

    def __init__(self, n_codes=64, dim=32):
        super().__init__()
        self.embed = nn.Embedding(n_codes, dim)
        self.conv = nn.Conv1d(dim, dim, 5, padding=2)
        self.out = nn.Linear(dim, n_codes)

    def forward(self, indices):
        h = self.conv(self.embed(indices).transpose(1, 2)).transpose(1, 2)
        return self.out(torch.relu(h)).argmax(-1)


class Vocoder(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.up = nn.ConvTranspose1d(dim, 1, 8, stride=8)

    def forward(self, frames):
        return torch.tanh(self.up(frames.transpose(1, 2)))


class SpeechCleaner:
    """Three models which take turns on one card; the next one sends the one before back to the host."""

    def __init__(self, device="cuda:0"):
        self.device = torch.device(device)
        hook = None
        for name, module in (("quantizer", Quantizer()), ("denoiser", Denoiser()), ("vocoder", Vocoder())):
            module, hook = cpu_offload_with_hook(module.eval(), self.device, prev_module_hook=hook)
            setattr(self, name, module)
        self.last_hook = hook

    @torch.no_grad()
    def __call__(self, wave):
        indices = self.quantizer(wave.to(self.device))
        indices = self.denoiser(indices)
        frames = F.embedding(indices, self.quantizer.codes.weight)
        clean = self.vocoder(frames).cpu()
        self.last_hook.offload()
        return clean


def noisy_tone(freq, n=320):
    t = torch.arange(n) / 8000
    return (torch.sin(2 * torch.pi * freq * t) + 0.1 * torch.randn(n))[None, None]


if __name__ == "__main__":
    torch.manual_seed(0)
    cleaner = SpeechCleaner()
    for freq in (220, 440):
        out = cleaner(noisy_tone(freq))
        print(freq, tuple(out.shape), round(out.abs().mean().item(), 4))
