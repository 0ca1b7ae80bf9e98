# cause: optimizer-state-on-other-device|checkpoint-map-location
# guilty: m (state["m"])
# after: facebookresearch/ParlAI#678
import io

import torch
from torch import nn


class Rprop:
    """A small optimizer with a memory for each weight."""

    def __init__(self, params):
        self.params = list(params)
        self.state = [{} for _ in self.params]

    @torch.no_grad()
    def step(self):
        for p, state in zip(self.params, self.state):
            m = state.setdefault("m", torch.zeros_like(p))
            m.mul_(0.9).add_(p.grad)
            p.add_(m.sign(), alpha=-1e-3)
            p.grad = None


def learn(agent, optimizer):
    for _ in range(2):
        words = torch.randint(0, 30, (4, 6)).cuda()
        agent(words).square().mean().backward()
        optimizer.step()


agent = nn.Sequential(nn.Embedding(30, 8), nn.Flatten(), nn.Linear(48, 2)).cuda()
optimizer = Rprop(agent.parameters())
learn(agent, optimizer)
saved = io.BytesIO()
torch.save({"agent": agent.state_dict(), "optimizer": optimizer.state}, saved)
saved.seek(0)
states = torch.load(saved, map_location=lambda storage, _: storage)
agent.load_state_dict(states["agent"])
again = Rprop(agent.parameters())
again.state = states["optimizer"]
learn(agent, again)
