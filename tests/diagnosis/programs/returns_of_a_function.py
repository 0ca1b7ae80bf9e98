# cause: tensor-created-on-wrong-device
import torch
from torch import nn


def discounted(rewards, gamma=0.9):
    total, found = 0.0, torch.zeros(rewards.shape[0])
    for step in reversed(range(len(rewards))):
        total = rewards[step].item() + gamma * total
        found[step] = total
    return found


policy = nn.Linear(3, 2).to("cuda:0")
optimizer = torch.optim.SGD(policy.parameters(), 0.1)
states, rewards = torch.randn(6, 3, device="cuda:0"), torch.randn(6, device="cuda:0")
chosen = policy(states).log_softmax(-1)[:, 0]
loss = -(chosen * discounted(rewards)).mean()
loss.backward()
optimizer.step()
