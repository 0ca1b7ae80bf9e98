# cause: meta-tensor-not-materialized|unmaterialized-weights
# guilty: self.inv_freq (inv_freq)
"""Fast loading: build on meta, assign the checkpoint."""
import torch
from torch import nn


class Timescale(nn.Module):
    def __init__(self, dim, base=1000.0):
        super().__init__()
        inv_freq = base ** -(torch.arange(0, dim, 2).float() / dim)
        self.register_buffer("inv_freq", inv_freq, persistent=False)

    def forward(self, when):
        ang = when[..., None] * self.inv_freq
        return torch.cat([ang.sin(), ang.cos()], -1)


class EventModel(nn.Module):
    def __init__(self, kinds=30, d=32):
        super().__init__()
        self.kind = nn.Embedding(kinds, d)
        self.time = Timescale(d)
        self.mix = nn.GRU(d, d, batch_first=True)
        self.rate = nn.Linear(d, kinds)

    def forward(self, kinds, times):
        h, _ = self.mix(self.kind(kinds) + self.time(times))
        return nn.functional.softplus(self.rate(h))


def load_fast(state, device):
    with torch.device("meta"):
        model = EventModel()
    state = {k: v.to(device) for k, v in state.items()}
    missing = model.load_state_dict(state, strict=True, assign=True)
    assert not missing.missing_keys
    return model.eval()


def main():
    checkpoint = EventModel().state_dict()
    model = load_fast(checkpoint, "cuda:0")
    kinds = torch.randint(0, 30, (2, 10), device="cuda:0")
    times = torch.rand(2, 10, device="cuda:0").cumsum(-1)
    with torch.no_grad():
        print(model(kinds, times).shape)


main()
