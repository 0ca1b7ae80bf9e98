# cause: data-parallel-replica-device
# guilty: pe
import torch
import torch.nn as nn
import torch.nn.functional as F


class Base(nn.Module):
    def __init__(self, device):
        super().__init__()
        self.device = torch.device(device)

    def finish(self):
        return self.to(self.device)


class Denoiser(Base):
    def __init__(self, device, bands=16):
        super().__init__(device)
        self.enc = nn.Conv1d(1 + bands, 32, 9, padding=4)
        self.mid = nn.ModuleList(nn.Conv1d(32, 32, 9, padding=4 * 2 ** i, dilation=2 ** i) for i in range(3))
        self.dec = nn.Conv1d(32, 1, 9, padding=4)
        self.bands = bands
        self.finish()

    def fourier(self, length):
        t = torch.linspace(0, 1, length, device=self.device)
        k = torch.arange(1, self.bands // 2 + 1, device=self.device)
        ang = 6.2832 * k[:, None] * t
        return torch.cat([ang.sin(), ang.cos()])

    def forward(self, wav):
        pe = self.fourier(wav.size(-1)).expand(wav.size(0), -1, -1)
        h = self.enc(torch.cat([wav, pe], dim=1))
        for c in self.mid:
            h = h + F.silu(c(h))
        return wav - self.dec(h)


def clean(n, length=400):
    t = torch.linspace(0, 1, length)
    f = torch.randint(3, 20, (n, 1)).float()
    return torch.sin(6.2832 * f * t).unsqueeze(1)


class Trainer:
    def __init__(self, model, lr=1e-3):
        self.core = model
        self.model = nn.DataParallel(model, device_ids=[0, 1])
        self.opt = torch.optim.Adam(model.parameters(), lr)

    def step(self, batch):
        x = clean(batch).to(self.core.device)
        noisy = x + 0.3 * torch.randn_like(x)
        loss = F.l1_loss(self.model(noisy), x)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return loss.item()


if __name__ == "__main__":
    torch.manual_seed(0)
    tr = Trainer(Denoiser("cuda:0"))
    print([round(tr.step(8), 4) for _ in range(4)])
