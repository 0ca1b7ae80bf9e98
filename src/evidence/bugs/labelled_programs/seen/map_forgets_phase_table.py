# cause: rope-table-on-wrong-device|device-map-incomplete-or-wrong
# guilty: self.freq (freq)
# line: 18
# repair: in two_card_map add the entry "phase": "cuda:0" (the table has only a non-persistent buffer, so no key of the state dict asks for it) OR move it by hand: model.phase.to("cuda:0")
"""Time-series language model over two cards with accelerate; hand-made map."""
import torch
from torch import nn
from accelerate import dispatch_model


class PhaseTable(nn.Module):
    def __init__(self, dim, base=1000.0):
        super().__init__()
        freq = base ** (-torch.arange(0, dim, 2).float() / dim)
        self.register_buffer("freq", freq, persistent=False)

    def forward(self, stamps):
        angle = stamps.float()[..., None] * self.freq
        return torch.cat([angle.sin(), angle.cos()], dim=-1)


class Mixer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.conv = nn.Conv1d(dim, dim, 3, padding=1, groups=dim)
        self.ff = nn.Linear(dim, dim)

    def forward(self, h, phase):
        y = self.norm(h + phase)
        return h + self.ff(self.conv(y.transpose(1, 2)).transpose(1, 2)).tanh()


class SeriesLM(nn.Module):
    def __init__(self, bins=64, dim=32, depth=6):
        super().__init__()
        self.embed = nn.Embedding(bins, dim)
        self.phase = PhaseTable(dim)
        self.mixers = nn.ModuleList([Mixer(dim) for _ in range(depth)])
        self.head = nn.Linear(dim, bins)

    def forward(self, codes, stamps):
        h = self.embed(codes)
        phase = self.phase(stamps)
        for mixer in self.mixers:
            h = mixer(h, phase)
        return self.head(h)


def two_card_map(depth, cut):
    names = {f"mixers.{i}": "cuda:0" if i < cut else "cuda:1" for i in range(depth)}
    names["embed"] = "cuda:0"
    names["head"] = "cuda:1"
    return names


@torch.no_grad()
def forecast(model, codes, steps):
    for _ in range(steps):
        stamps = torch.arange(codes.shape[1], device=codes.device).expand_as(codes)
        nxt = model(codes, stamps)[:, -1].argmax(-1, keepdim=True)
        codes = torch.cat([codes, nxt.to(codes.device)], dim=1)
    return codes


if __name__ == "__main__":
    model = dispatch_model(SeriesLM().eval(), device_map=two_card_map(6, 3))
    history = torch.randint(0, 64, (2, 16), device="cuda:0")
    print(forecast(model, history, 4)[:, -4:])
