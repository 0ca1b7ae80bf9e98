# cause: data-parallel-replica-device
# guilty: self.attn_mask (attn_mask or mask)
"""Shifted window attention under DataParallel."""
import torch
import torch.nn as nn


def windows(x, w):
    b, h, ww, c = x.shape
    x = x.view(b, h // w, w, ww // w, w, c)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, w * w, c)


class WindowAttention(nn.Module):
    def __init__(self, dim, heads, window, res, shift):
        super().__init__()
        self.heads, self.window, self.shift, self.res = heads, window, shift, res
        self.qkv, self.proj = nn.Linear(dim, dim * 3), nn.Linear(dim, dim)
        self.attn_mask = self.make_mask().cuda() if shift else None

    def make_mask(self):
        img = torch.zeros(1, self.res, self.res, 1)
        cuts = (slice(0, -self.window), slice(-self.window, -self.shift), slice(-self.shift, None))
        n = 0
        for a in cuts:
            for b in cuts:
                img[:, a, b] = n
                n += 1
        m = windows(img, self.window).squeeze(-1)
        return (m[:, None] != m[:, :, None]).float() * -100.0

    def forward(self, x):
        b = x.shape[0]
        if self.shift:
            x = torch.roll(x, (-self.shift, -self.shift), (1, 2))
        t = windows(x, self.window)
        n, l, c = t.shape
        q, k, v = self.qkv(t).view(n, l, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        a = q @ k.transpose(-1, -2) * (c // self.heads) ** -0.5
        if self.attn_mask is not None:
            nw = self.attn_mask.shape[0]
            a = (a.view(b, nw, self.heads, l, l) + self.attn_mask[None, :, None]).view(-1, self.heads, l, l)
        o = self.proj((a.softmax(-1) @ v).transpose(1, 2).reshape(n, l, c))
        return o.view(b, self.res, self.res, c)


class SwinLite(nn.Module):
    def __init__(self, dim=32, res=8, classes=10):
        super().__init__()
        self.embed = nn.Conv2d(3, dim, 4, 4)
        self.a, self.b = WindowAttention(dim, 4, 4, res, 0), WindowAttention(dim, 4, 4, res, 2)
        self.cls = nn.Linear(dim, classes)

    def forward(self, img):
        x = self.embed(img).permute(0, 2, 3, 1)
        x = x + self.a(x)
        x = x + self.b(x)
        return self.cls(x.mean((1, 2)))


model = nn.DataParallel(SwinLite().cuda())
y = model(torch.randn(4, 3, 32, 32).cuda())
y.sum().backward()
print(y.shape)
