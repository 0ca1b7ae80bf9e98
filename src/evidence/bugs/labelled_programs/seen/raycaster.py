# cause: tensor-created-on-wrong-device
# guilty: d
import torch
import torch.nn as nn


def pose(angle):
    c, s = torch.cos(angle), torch.sin(angle)
    z, o = torch.zeros_like(c), torch.ones_like(c)
    rot = torch.stack([torch.stack([c, -s, z]), torch.stack([s, c, z]), torch.stack([z, z, o])])
    return rot, torch.stack([z, z, 2 * o])


def rays(h, w, focal, rot, origin):
    i, j = torch.meshgrid(torch.arange(w).float(), torch.arange(h).float(), indexing="xy")
    d = torch.stack([(i - w / 2) / focal, -(j - h / 2) / focal, -torch.ones_like(i)], -1)
    d = torch.einsum("hwc,rc->hwr", d, rot)
    return origin.expand_as(d), d


class Field(nn.Module):
    def __init__(self, freqs=3):
        super().__init__()
        self.register_buffer("freq", 2.0 ** torch.arange(freqs))
        self.net = nn.Sequential(nn.Linear(6 * freqs, 24), nn.ReLU(), nn.Linear(24, 4))

    def forward(self, p):
        e = (p[..., None] * self.freq).flatten(-2)
        out = self.net(torch.cat([e.sin(), e.cos()], -1))
        return out[..., :3].sigmoid(), out[..., 3].relu()


def render(field, o, d, n=6):
    t = torch.linspace(0.5, 3.0, n, device=o.device)
    rgb, sigma = field(o[..., None, :] + d[..., None, :] * t[:, None])
    alpha = 1 - torch.exp(-sigma * (t[1] - t[0]))
    trans = torch.cumprod(1 - alpha + 1e-6, -1)
    return ((alpha * trans)[..., None] * rgb).sum(-2)


def main(device="cuda:0"):
    torch.manual_seed(0)
    field = Field().to(device)
    opt = torch.optim.Adam(field.parameters(), 5e-3)
    target = torch.rand(6, 6, 3, device=device)
    for k in range(3):
        rot, org = pose(torch.tensor(0.3 * k, device=device))
        o, d = rays(6, 6, 5.0, rot, org)
        loss = (render(field, o, d) - target).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(loss.item())


if __name__ == "__main__":
    main()
