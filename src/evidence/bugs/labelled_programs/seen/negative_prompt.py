# cause: extra-input-on-wrong-device|cache-or-beam-state-on-wrong-device|embedding-streams-on-different-devices
# guilty: self.uncond (uncond or self.negative)
"""Classifier-free guidance: text encoder on the second card, denoiser on the first."""
import torch
from torch import nn


class TextEncoder(nn.Module):
    def __init__(self, vocab=60, d=32):
        super().__init__()
        self.emb = nn.Embedding(vocab, d)
        self.layer = nn.TransformerEncoderLayer(d, 4, 64, batch_first=True, dropout=0.0)

    def forward(self, ids):
        return self.layer(self.emb(ids))


class Denoiser(nn.Module):
    def __init__(self, c=4, d=32):
        super().__init__()
        self.q, self.kv, self.t = nn.Linear(c, d), nn.Linear(d, 2 * d), nn.Linear(1, d)
        self.o = nn.Linear(d, c)

    def forward(self, x, t, ctx):
        b, c, h, w = x.shape
        q = self.q(x.flatten(2).transpose(1, 2)) + self.t(t.view(-1, 1, 1))
        k, v = self.kv(ctx).chunk(2, -1)
        y = torch.softmax(q @ k.transpose(1, 2) / 6, -1) @ v
        return self.o(y).transpose(1, 2).view(b, c, h, w)


class Pipeline:
    def __init__(self, text, unet, text_device, device):
        self.text = text.to(text_device).eval()
        self.unet = unet.to(device).eval()
        self.text_device, self.device = text_device, device
        self.uncond = self.text(torch.zeros(1, 7, dtype=torch.long, device=text_device)).detach()

    def encode(self, ids):
        return self.text(ids.to(self.text_device)).to(self.device)

    @torch.no_grad()
    def __call__(self, ids, steps=3, scale=7.5):
        cond = self.encode(ids)
        x = torch.randn(len(ids), 4, 8, 8, device=self.device)
        for i in range(steps, 0, -1):
            t = torch.full((2 * len(ids),), i / steps, device=self.device)
            ctx = torch.cat([self.uncond.expand(len(ids), -1, -1), cond])
            e_u, e_c = self.unet(torch.cat([x, x]), t, ctx).chunk(2)
            x = x - (e_u + scale * (e_c - e_u)) / steps
        return x


pipe = Pipeline(TextEncoder(), Denoiser(), "cuda:1", "cuda:0")
print(pipe(torch.randint(1, 60, (2, 7))).shape)
