from functools import wraps

from torch import nn


def recorded(function):
    @wraps(function)
    def inner(self, *args, **kwargs):
        return function(self, *args, **kwargs)

    return inner


class Listener(nn.Module):
    def __init__(self, size=8):
        super().__init__()
        self.words = nn.Embedding(20, size)
        self.ear = nn.Linear(6, size)
        self.blocks = nn.ModuleList(nn.Linear(size, size) for _ in range(2))

    @recorded
    def forward(self, ids, audio=None):
        hidden = self.words(ids)
        if audio is not None:
            sounds = self.ear(audio)
            at = ids == 7
            hidden[at] = hidden[at] + sounds.reshape(-1, sounds.shape[-1])
        for block in self.blocks:
            hidden = block(hidden)
        return hidden
