# cause: weights-moved-away-by-manager
# guilty: self.embed (self.embed.weight, punctuator)
"""Speech recognition, speakers and punctuation share one small card through a hub."""
from collections import OrderedDict

import torch
import torch.nn as nn


class ModelHub:
    """Keeps at most `capacity` models on the GPU; the least recently asked for goes to the host."""

    def __init__(self, device, capacity):
        self.device = torch.device(device)
        self.capacity = capacity
        self.builders = {}
        self.loaded = OrderedDict()
        self.resident = OrderedDict()

    def register(self, name, builder):
        self.builders[name] = builder

    def acquire(self, name):
        if name not in self.loaded:
            self.loaded[name] = self.builders[name]().eval()
        self.resident.pop(name, None)
        while len(self.resident) >= self.capacity:
            old, model = self.resident.popitem(last=False)
            model.to("cpu")
        self.resident[name] = self.loaded[name].to(self.device)
        return self.resident[name]


class Recognizer(nn.Module):
    def __init__(self, mels=20, vocab=30):
        super().__init__()
        self.rnn = nn.GRU(mels, 32, batch_first=True)
        self.out = nn.Linear(32, vocab)

    def forward(self, feats):
        return self.out(self.rnn(feats)[0]).argmax(-1)


class SpeakerNet(nn.Module):
    def __init__(self, mels=20, speakers=3):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(mels, 32), nn.ReLU(), nn.Linear(32, speakers))

    def forward(self, feats):
        return self.net(feats).argmax(-1)


class Punctuator(nn.Module):
    def __init__(self, vocab=30, marks=4):
        super().__init__()
        self.embed = nn.Embedding(vocab, 24)
        self.conv = nn.Conv1d(24, marks, 3, padding=1)

    def forward(self, words):
        x = self.embed(words)
        return self.conv(x.transpose(1, 2)).argmax(1)


class MeetingNotes:
    def __init__(self, hub):
        self.hub = hub
        hub.register("recognizer", Recognizer)
        hub.register("speakers", SpeakerNet)
        hub.register("punctuation", Punctuator)

    @torch.no_grad()
    def transcribe(self, feats):
        feats = feats.to(self.hub.device)
        punctuator = self.hub.acquire("punctuation")
        words = self.hub.acquire("recognizer")(feats)
        draft = punctuator(words)
        turns = self.hub.acquire("speakers")(feats)
        # words of the first speaker alone are punctuated once more
        words = torch.where(turns == turns[:, :1], words, torch.zeros_like(words))
        final = punctuator(words)
        return draft, final


if __name__ == "__main__":
    torch.manual_seed(0)
    hub = ModelHub("cuda:0", capacity=2)
    notes = MeetingNotes(hub)
    draft, final = notes.transcribe(torch.randn(1, 50, 20))
    print("changed marks:", int((draft != final).sum()))
