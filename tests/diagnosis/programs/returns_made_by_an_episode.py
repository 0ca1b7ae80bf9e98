# cause: hard-coded-device
# guilty: wanted (episode.returns())
"""Policy gradient: an episode gives its returns back as a tensor on the GPU that it names; the agent is elsewhere."""
import torch
from torch import nn


class Episode:
    def __init__(self):
        self.states, self.rewards = [], []

    def add(self, state, reward):
        self.states.append(state)
        self.rewards.append(reward)

    def returns(self):
        sums, total = [], 0.0
        for reward in reversed(self.rewards):
            total = reward + 0.9 * total
            sums.append(total)
        return torch.as_tensor(sums[::-1]).to("cuda")


class Agent:
    def __init__(self, device):
        self.device = device
        self.policy = nn.Linear(4, 2).to(device)

    def advantage(self, episode):
        with torch.no_grad():
            states = torch.tensor(episode.states, device=self.device)
            values = self.policy(states).max(dim=-1).values
            wanted = episode.returns()
            return wanted - values


def main():
    episode = Episode()
    for step in range(5):
        episode.add([0.1 * step] * 4, 1.0)
    agent = Agent("cuda:1")
    print(agent.advantage(episode).tolist())


main()
