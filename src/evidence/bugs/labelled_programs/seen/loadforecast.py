# cause: cache-or-beam-state-on-wrong-device|tensor-created-on-wrong-device
# guilty: state (hx)
from dataclasses import dataclass
import torch
import torch.nn as nn


@dataclass
class Conf:
    feats: int = 3
    hidden: int = 12
    layers: int = 2
    horizon: int = 4
    device: str = "cuda:0"


class Forecaster(nn.Module):
    def __init__(self, c: Conf):
        super().__init__()
        self.c = c
        self.lstm = nn.LSTM(c.feats, c.hidden, c.layers, batch_first=True)
        self.head = nn.Linear(c.hidden, c.horizon)

    def start(self, n):
        shape = (self.c.layers, n, self.c.hidden)
        return torch.zeros(shape), torch.zeros(shape)

    def forward(self, x):
        state = self.start(x.size(0))
        out, _ = self.lstm(x, state)
        return self.head(out[:, -1])


def series(n, length, feats):
    t = torch.arange(length).float()
    return torch.stack([torch.stack([(t * (i + j + 1) / 9).sin() for j in range(feats)], -1) for i in range(n)])


if __name__ == "__main__":
    conf = Conf()
    net = Forecaster(conf).to(conf.device)
    opt = torch.optim.SGD(net.parameters(), 0.05, momentum=0.9)
    data = series(8, 24, conf.feats).to(conf.device)
    for epoch in range(4):
        pred = net(data[:, :20])
        loss = nn.functional.l1_loss(pred, data[:, 20:, 0])
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
    print("mae", loss.item())
