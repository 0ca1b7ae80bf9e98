# cause: module-left-on-other-device
# guilty: self.first.weight (self.first, weight)
# line: 32
# repair: in MultiScale.__init__ keep the judges in nn.ModuleList, so that .to(device) reaches them OR move each of them in VocoderTrainer.__init__
"""Adversarial training of a small vocoder against judges at several scales."""
import itertools

import torch
import torch.nn as nn
import torch.nn.functional as F


class Vocoder(nn.Module):
    def __init__(self, mels=20):
        super().__init__()
        self.inlet = nn.Conv1d(mels, 32, 3, padding=1)
        self.up = nn.ConvTranspose1d(32, 16, 8, stride=4, padding=2)
        self.outlet = nn.Conv1d(16, 1, 5, padding=2)

    def forward(self, mel):
        return torch.tanh(self.outlet(F.leaky_relu(self.up(F.leaky_relu(self.inlet(mel), 0.1)), 0.1)))


class Judge(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.first = nn.Conv1d(1, width, 9, stride=2, padding=4)
        self.second = nn.Conv1d(width, 2 * width, 9, stride=2, padding=4)
        self.last = nn.Conv1d(2 * width, 1, 3, padding=1)

    def forward(self, wave):
        a = F.leaky_relu(self.first(wave), 0.1)
        b = F.leaky_relu(self.second(a), 0.1)
        return self.last(b), [a, b]


class MultiScale(nn.Module):
    def __init__(self, scales=3):
        super().__init__()
        self.judges = [Judge() for _ in range(scales)]
        self.pool = nn.AvgPool1d(4, 2, padding=1)

    def forward(self, wave):
        results = []
        for judge in self.judges:
            results.append(judge(wave))
            wave = self.pool(wave)
        return results

    def trainable(self):
        return itertools.chain(*(judge.parameters() for judge in self.judges))


class VocoderTrainer:
    def __init__(self, device, lr=2e-4):
        self.device = torch.device(device)
        self.vocoder = Vocoder().to(self.device)
        self.scales = MultiScale().to(self.device)
        self.opt_g = torch.optim.AdamW(self.vocoder.parameters(), lr=lr)
        self.opt_d = torch.optim.AdamW(self.scales.trainable(), lr=lr)

    def judge_step(self, real, fake):
        loss = 0
        for (good, _), (bad, _) in zip(self.scales(real), self.scales(fake.detach())):
            loss = loss + (1 - good).square().mean() + bad.square().mean()
        self.opt_d.zero_grad()
        loss.backward()
        self.opt_d.step()
        return loss.item()

    def vocoder_step(self, real, fake):
        loss = F.l1_loss(fake, real)
        for (bad, maps), (_, wanted) in zip(self.scales(fake), self.scales(real)):
            loss = loss + (1 - bad).square().mean()
            loss = loss + sum(F.l1_loss(a, b.detach()) for a, b in zip(maps, wanted))
        self.opt_g.zero_grad()
        loss.backward()
        self.opt_g.step()
        return loss.item()

    def step(self, mel, wave):
        mel, wave = mel.to(self.device), wave.to(self.device)
        fake = self.vocoder(mel)
        return self.judge_step(wave, fake), self.vocoder_step(wave, fake)


if __name__ == "__main__":
    torch.manual_seed(0)
    trainer = VocoderTrainer("cuda:0")
    for _ in range(2):
        print(trainer.step(torch.randn(4, 20, 32), torch.rand(4, 1, 128) * 2 - 1))
