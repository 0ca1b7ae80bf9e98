# cause: offload-hook-bypassed
# guilty: self.mean (h)
# line: 18
# repair: centre inside Codebook.forward (h = h - self.mean there) and call the module alone in Codec.forward, so that its hook brings the weights in, instead of the method self.codebook.centre OR in load_codec keep "codebook" on a card
"""Discrete audio codec: encoder and decoder on two cards, the big codebook in host memory."""
import torch
from torch import nn
from accelerate import dispatch_model


class Codebook(nn.Module):
    def __init__(self, size, dim):
        super().__init__()
        self.mean = nn.Parameter(torch.zeros(dim))
        self.entries = nn.Parameter(torch.randn(size, dim))

    def centre(self, h):
        return h - self.mean

    def forward(self, h):
        score = h @ self.entries.t() - 0.5 * self.entries.pow(2).sum(1)
        return self.entries[score.argmax(-1)]


class Frames(nn.Module):
    def __init__(self, hop, size):
        super().__init__()
        self.conv = nn.Conv1d(1, size, hop, hop)

    def forward(self, wave):
        return self.conv(wave.unsqueeze(1)).transpose(1, 2)


class Synth(nn.Module):
    def __init__(self, dim, hop):
        super().__init__()
        self.up = nn.ConvTranspose1d(dim, 1, hop, hop)

    def forward(self, h):
        return torch.tanh(self.up(h.transpose(1, 2))).squeeze(1)


class Codec(nn.Module):
    def __init__(self, hop=16, size=256, dim=24):
        super().__init__()
        self.frames = Frames(hop, dim)
        self.codebook = Codebook(size, dim)
        self.synth = Synth(dim, hop)

    def forward(self, wave):
        h = self.codebook.centre(self.frames(wave))
        return self.synth(self.codebook(h))


def load_codec(low_memory=True):
    codec = Codec().eval()
    plan = {"frames": "cuda:0", "codebook": "cpu" if low_memory else "cuda:0", "synth": "cuda:1"}
    return dispatch_model(codec, device_map=plan, main_device="cuda:0")


@torch.no_grad()
def roundtrip(codec, clips):
    errors = []
    for clip in clips:
        clip = clip.to("cuda:0")
        again = codec(clip)
        errors.append((again - clip).abs().mean().item())
    return errors


if __name__ == "__main__":
    torch.manual_seed(4)
    clips = [torch.randn(2, 320) for _ in range(3)]
    print([round(e, 3) for e in roundtrip(load_codec(), clips)])
