# cause: meta-tensor-not-materialized
# guilty: critic.value (value, self.value, critic)
"""Build a critic from the checkpoint of a language model without a second copy in memory."""
import os
import tempfile

import torch
import torch.nn as nn
from accelerate import init_empty_weights


class Trunk(nn.Module):
    def __init__(self, vocab, dim, depth):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.rnns = nn.ModuleList(nn.LSTM(dim, dim, batch_first=True) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)

    def forward(self, ids):
        x = self.embed(ids)
        for rnn in self.rnns:
            x = x + rnn(x)[0]
        return self.norm(x)


class LanguageModel(nn.Module):
    def __init__(self, vocab, dim, depth):
        super().__init__()
        self.trunk = Trunk(vocab, dim, depth)
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids):
        return self.head(self.trunk(ids))


class Critic(nn.Module):
    def __init__(self, vocab, dim, depth):
        super().__init__()
        self.trunk = Trunk(vocab, dim, depth)
        self.value = nn.Linear(dim, 1)

    def forward(self, ids):
        h = self.trunk(ids.to(self.trunk.embed.weight.device))
        return self.value(h.to(self.value.weight.device)).squeeze(-1)


def pretrain(path, sizes):
    torch.save(LanguageModel(**sizes).state_dict(), path)


def read_weights(path, drop=("head.",)):
    weights = torch.load(path, map_location="cpu", mmap=True)
    return {k: v for k, v in weights.items() if not k.startswith(drop)}


def place(critic, first, second):
    critic.trunk.to(first)
    critic.value.to(second)
    return critic


def load_critic(path, sizes, first="cuda:0", second="cuda:1"):
    with init_empty_weights():
        critic = Critic(**sizes)
    missing, unexpected = critic.load_state_dict(read_weights(path), strict=False, assign=True)
    if unexpected:
        raise KeyError(unexpected)
    print("newly made:", missing)
    return place(critic, first, second)


def advantages(critic, ids, rewards, gamma=0.99):
    with torch.no_grad():
        values = critic(ids)
    rewards = rewards.to(values.device)
    following = torch.cat([values[:, 1:], torch.zeros_like(values[:, :1])], dim=1)
    return rewards + gamma * following - values


if __name__ == "__main__":
    torch.manual_seed(0)
    sizes = dict(vocab=50, dim=24, depth=2)
    path = os.path.join(tempfile.mkdtemp(), "lm.pt")
    pretrain(path, sizes)
    critic = load_critic(path, sizes)
    print(advantages(critic, torch.randint(0, 50, (2, 8)), torch.randn(2, 8)).shape)
