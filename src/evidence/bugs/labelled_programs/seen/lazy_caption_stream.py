# cause: weights-moved-away-by-manager|module-left-on-other-device
# guilty: self.proj (self.proj.weight, the weights of the captioner)
# line: 47
# repair: use up the stream while the model is resident: in Studio.caption return list(self.captioner.stream(features)) inside the with block OR make caption a generator itself (with ...: yield from self.captioner.stream(features))
import contextlib

import torch
import torch.nn as nn


class Residency:
    """Keeps models in host memory and lends them a card for the length of a with block."""

    def __init__(self, device):
        self.device = device
        self.log = []

    @contextlib.contextmanager
    def lend(self, model):
        model.to(self.device)
        self.log.append((type(model).__name__, "in"))
        try:
            yield model
        finally:
            model.to("cpu")
            self.log.append((type(model).__name__, "out"))


class FrameEncoder(nn.Module):
    def __init__(self, dim=24):
        super().__init__()
        self.conv = nn.Conv2d(3, dim, 4, stride=4)

    def forward(self, frames):
        return torch.relu(self.conv(frames)).mean((2, 3))


class Captioner(nn.Module):
    def __init__(self, dim=24, vocab=60):
        super().__init__()
        self.proj = nn.Linear(dim, dim)
        self.embed = nn.Embedding(vocab, dim)
        self.cell = nn.GRUCell(dim, dim)
        self.head = nn.Linear(dim, vocab)

    def start(self, feature):
        return torch.tanh(self.proj(feature))

    def forward(self, word, state):
        state = self.cell(self.embed(word), state)
        return self.head(state), state

    @torch.no_grad()
    def stream(self, features, length=5):
        for feature in features:
            state = self.start(feature[None])
            word = torch.ones(1, dtype=torch.long, device=feature.device)
            words = []
            for _ in range(length):
                logits, state = self(word, state)
                word = logits.argmax(-1)
                words.append(word.item())
            yield words


class Studio:
    def __init__(self, device="cuda:0"):
        self.device = device
        self.residency = Residency(device)
        self.encoder = FrameEncoder().eval()
        self.captioner = Captioner().eval()

    @torch.no_grad()
    def encode(self, frames):
        with self.residency.lend(self.encoder) as encoder:
            return encoder(frames.to(self.device))

    def caption(self, features):
        with self.residency.lend(self.captioner) as captioner:
            return captioner.stream(features)


if __name__ == "__main__":
    torch.manual_seed(0)
    studio = Studio()
    features = studio.encode(torch.randn(3, 3, 16, 16))
    for i, words in enumerate(studio.caption(features)):
        print("frame", i, words)
    print(studio.residency.log)
