# cause: module-left-on-other-device
# guilty: table (self.table)
"""A model keeps the parts for its modes in a plain dictionary: what moves it moves only the one it trains."""

import torch
from torch import nn


class Tokens(nn.Module):
    def __init__(self, rows):
        super().__init__()
        self.register_buffer("table", torch.randint(0, 7, (rows, 3)))

    def forward(self, at):
        table = self.table
        return table[at]


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(7, 4)
        self.seen = Tokens(10)
        self.by_mode = {"train": self.seen, "test": Tokens(5)}

    def forward(self, at, mode="train"):
        return self.words(self.by_mode[mode](at)).mean(1)


model = Model().to("cuda:0")
print(model(torch.arange(4, device="cuda:0")).shape)
print(model(torch.arange(4, device="cuda:0"), mode="test").shape)
