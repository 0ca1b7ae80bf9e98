# cause: device-from-unordered-set
# guilty: frames
import torch
from torch import nn


class Speech(nn.Module):
    def __init__(self, mels=20, d=32, symbols=30):
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv1d(mels, d, 3, 2, 1), nn.GELU(), nn.Conv1d(d, d, 3, 2, 1))
        self.decoder = nn.GRU(d, d, batch_first=True)
        self.out = nn.Linear(d, symbols)

    def place(self):
        self.encoder.to("cuda:1")
        self.decoder.to("cuda:0")
        self.out.to("cuda:0")
        return self

    def forward(self, frames):
        h = self.encoder(frames).transpose(1, 2)
        h, _ = self.decoder(h.to("cuda:0"))
        return self.out(h)


def device_of(model):
    return {p.device for p in model.parameters()}.pop()


def transcribe(model, clips):
    dev = device_of(model)
    texts = []
    for clip in clips:
        frames = clip.unsqueeze(0).to(dev)
        texts.append(model(frames).argmax(-1)[0].tolist())
    return texts


model = Speech().place().eval()
clips = [torch.randn(20, n) for n in (40, 64)]
with torch.no_grad():
    print(transcribe(model, clips))
