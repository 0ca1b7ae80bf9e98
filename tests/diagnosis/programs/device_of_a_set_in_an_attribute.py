# cause: device-from-unordered-set
import torch
from torch import nn


class Runner:
    def __init__(self, encoder, decoder):
        self.encoder, self.decoder = encoder, decoder
        used = {p.device for m in (encoder, decoder) for p in m.parameters()}
        self.main = list(used)[0]

    def run(self, x):
        x = x.to(self.main)
        h = self.encoder(x)
        return self.decoder(h.to(next(self.decoder.parameters()).device))


r = Runner(nn.Linear(4, 8).to("cuda:1"), nn.Linear(8, 2).to("cuda:0"))
print(r.run(torch.randn(2, 4)))
