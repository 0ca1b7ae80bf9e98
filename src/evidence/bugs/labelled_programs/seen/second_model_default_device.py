# cause: generator-or-default-device|tensor-created-on-wrong-device
# guilty: future
# line: 20
# repair: in load_judge use the context `with torch.device("cuda:1"):` instead of torch.set_default_device("cuda:1") (or reset it with torch.set_default_device(None)) OR in Attention.forward create the mask with device=score.device
"""A writer on the first card and a judge on the second pick the better of two continuations."""
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        score = q @ k.transpose(1, 2) / q.shape[-1] ** 0.5
        future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        score = score.masked_fill(future, float("-inf"))
        return x + self.out(score.softmax(-1) @ v)


class Net(nn.Module):
    def __init__(self, vocab, dim, outputs):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.blocks = nn.Sequential(Attention(dim), Attention(dim))
        self.head = nn.Linear(dim, outputs)

    def forward(self, ids):
        return self.head(self.blocks(self.embed(ids)))


class Judge(Net):
    def forward(self, ids):
        return self.head(self.embed(ids).mean(1)).squeeze(-1)


def load_writer(vocab=60):
    return Net(vocab, 32, vocab).to("cuda:0").eval()


def load_judge(vocab=60):
    torch.set_default_device("cuda:1")
    judge = Judge(vocab, 16, 1)
    return judge.eval()


@torch.no_grad()
def extend(writer, ids, steps):
    for _ in range(steps):
        probs = writer(ids)[:, -1].softmax(-1)
        ids = torch.cat([ids, torch.multinomial(probs, 1)], dim=1)
    return ids


@torch.no_grad()
def best_pair(writer, judge, prompt, steps=5):
    ids = extend(writer, prompt.repeat(2, 1), steps)
    reward = judge(ids.to("cuda:1"))
    return ids[int(reward.argmax())].tolist()


if __name__ == "__main__":
    torch.manual_seed(0)
    writer, judge = load_writer(), load_judge()
    for start in ([1, 5, 9], [2, 4, 8]):
        print(best_pair(writer, judge, torch.tensor([start], device="cuda:0")))
