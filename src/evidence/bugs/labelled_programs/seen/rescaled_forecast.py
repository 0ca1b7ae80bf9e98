# cause: extra-input-on-wrong-device|tensor-created-on-wrong-device
# guilty: scale (self.scale or loc or self.loc)
# after: Nixtla/neuralforecast#711
import torch
from torch import nn


class Windows:
    def __init__(self, series, length):
        self.windows = series.unfold(0, length, 1)
        self.loc = self.windows.mean(-1, keepdim=True)
        self.scale = self.windows.std(-1, keepdim=True)

    def __iter__(self):
        for start in range(0, len(self.windows), 8):
            part = slice(start, start + 8)
            yield (self.windows[part] - self.loc[part]) / self.scale[part], self.loc[part], self.scale[part]


class DeepAR(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.out = nn.GRU(1, 8, batch_first=True), nn.Linear(8, 2)

    def forward(self, window):
        mean, raw = self.out(self.rnn(window[..., None])[0][:, -1]).chunk(2, -1)
        return mean, nn.functional.softplus(raw)


def decouple(output, loc, scale):
    mean, spread = output
    return mean * scale + loc, spread * scale


model = DeepAR().to("cuda:0").eval()
series = torch.sin(torch.arange(40.0) / 3)
with torch.no_grad():
    for window, loc, scale in Windows(series, 12):
        mean, spread = decouple(model(window.to("cuda:0")), loc, scale)
        print(torch.distributions.Normal(mean, spread).sample().shape)
