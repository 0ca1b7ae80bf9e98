# cause: meta-tensor-not-materialized
# guilty: model (self.window, model.front.window)
# line: 53
# repair: in build_tagger give the non-persistent buffer a value before the move: re-create front.window (register_buffer again with torch.hann_window) after the load, OR register it persistent so that the state dict fills it, OR use init_empty_weights(include_buffers=False) / no meta device
"""Sound event tagger that is built empty, filled from a state dict and placed on a card."""
import torch
import torch.nn as nn


class SpectralFront(nn.Module):
    def __init__(self, frame=32):
        super().__init__()
        self.frame = frame
        self.register_buffer("window", torch.hann_window(frame), persistent=False)
        self.scale = nn.Parameter(torch.ones(frame // 2 + 1))

    def forward(self, wave):
        frames = wave.unfold(-1, self.frame, self.frame // 2) * self.window
        return torch.fft.rfft(frames).abs().log1p() * self.scale


class Tagger(nn.Module):
    def __init__(self, classes=6, frame=32):
        super().__init__()
        self.front = SpectralFront(frame)
        self.rnn = nn.GRU(frame // 2 + 1, 24, batch_first=True)
        self.out = nn.Linear(24, classes)

    def forward(self, wave):
        return self.out(self.rnn(self.front(wave))[0].mean(1))


def train_and_export():
    model = Tagger()
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(2):
        loss = nn.functional.binary_cross_entropy_with_logits(model(torch.randn(4, 256)), torch.ones(4, 6))
        opt.zero_grad()
        loss.backward()
        opt.step()
    return {k: v.detach().clone() for k, v in model.state_dict().items()}


def empty(factory):
    with torch.device("meta"):
        return factory()


def build_tagger(weights, device):
    model = empty(Tagger)
    missing, unexpected = model.load_state_dict(weights, strict=True, assign=True)
    assert not missing and not unexpected
    return model.to(device).eval()


if __name__ == "__main__":
    torch.manual_seed(0)
    tagger = build_tagger(train_and_export(), "cuda:1")
    with torch.no_grad():
        print(tagger(torch.randn(2, 256, device="cuda:1")).sigmoid())
