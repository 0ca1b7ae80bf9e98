# cause: loss-or-label-on-other-device
# guilty: sample["old"]
"""The scores that an older copy of a policy gave are kept in a dictionary, on the GPU of that copy."""

import torch
from torch import nn

policy = nn.Linear(4, 3).to("cuda:0")
older = nn.Linear(4, 3).to("cuda:1")
optimizer = torch.optim.SGD(policy.parameters(), lr=0.1)


def play(states):
    with torch.no_grad():
        return {"states": states, "old": older(states.to("cuda:1")).log_softmax(-1)}


def step(sample):
    scores = policy(sample["states"].to("cuda:0")).log_softmax(-1)
    ratio = (scores - sample["old"]).exp()
    loss = -ratio.clamp(0.8, 1.2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


step(play(torch.rand(6, 4)))
