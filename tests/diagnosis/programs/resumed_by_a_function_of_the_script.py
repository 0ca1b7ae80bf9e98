# cause: optimizer-state-on-other-device|optimizer-built-before-move
# guilty: ?
"""A tagger goes on from a file: a function fills model and optimizer, and the model moves only then."""
import io

import torch
from torch import nn

tape = io.BytesIO()


def remember(tagger, optimizer):
    tape.seek(0)
    torch.save([tagger.state_dict(), optimizer.state_dict()], tape)


def go_on(tagger, optimizer):
    tape.seek(0)
    weights, state = torch.load(tape, map_location=torch.device("cpu"))
    tagger.load_state_dict(weights)
    optimizer.load_state_dict(state)


def steps(tagger, optimizer, device):
    for _ in range(2):
        words = torch.randint(9, (4, 5), device=device)
        tagger(words).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()


def session(device, again):
    tagger = nn.Sequential(nn.Embedding(9, 6), nn.Linear(6, 3))
    optimizer = torch.optim.Adam(tagger.parameters(), lr=0.01)
    if again:
        go_on(tagger, optimizer)
    tagger.to(device)
    steps(tagger, optimizer, device)
    remember(tagger, optimizer)


session("cuda:1", False)
session("cuda:1", True)
