# cause: generator-or-default-device|generator-on-other-device
# guilty: g
import torch
from torch import nn


class Decoder(nn.Module):
    def __init__(self, z=16):
        super().__init__()
        self.net = nn.Sequential(
            nn.ConvTranspose2d(z, 32, 4), nn.ReLU(), nn.ConvTranspose2d(32, 16, 4, 2, 1), nn.ReLU(),
            nn.ConvTranspose2d(16, 3, 4, 2, 1), nn.Tanh(),
        )

    def forward(self, z):
        return self.net(z[:, :, None, None])


def slerp(a, b, w):
    omega = torch.acos((a * b).sum(-1, keepdim=True) / (a.norm(dim=-1, keepdim=True) * b.norm(dim=-1, keepdim=True)))
    return (torch.sin((1 - w) * omega) * a + torch.sin(w * omega) * b) / torch.sin(omega)


def latents(n, dim, seed, device):
    g = torch.Generator()
    g.manual_seed(seed)
    out = torch.empty(n, dim, device=device)
    return out.normal_(generator=g)


@torch.inference_mode()
def walk(decoder, seeds, frames=3):
    device = next(decoder.parameters()).device
    video = []
    keys = [latents(1, 16, s, device) for s in seeds]
    for a, b in zip(keys, keys[1:]):
        for i in range(frames):
            video.append(decoder(slerp(a, b, i / frames)))
    return torch.cat(video)


if __name__ == "__main__":
    torch.manual_seed(0)
    print(walk(Decoder().eval().to("cuda:0"), seeds=[3, 14, 15]).shape)
