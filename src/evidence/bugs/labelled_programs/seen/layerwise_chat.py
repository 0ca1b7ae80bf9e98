# cause: cache-or-beam-state-on-wrong-device
# guilty: pk
import torch
import torch.nn as nn


class Memory:
    """Growing key/value store, one slot for each layer."""

    def __init__(self, n_layers, width, device):
        self.slots = [(torch.empty(1, 0, width, device=device),) * 2 for _ in range(n_layers)]

    def extend(self, i, k, v):
        pk, pv = self.slots[i]
        self.slots[i] = torch.cat((pk, k), 1), torch.cat((pv, v), 1)
        return self.slots[i]

    def __len__(self):
        return self.slots[0][0].size(1)


class Cell(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
        self.ff = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.Tanh())

    def forward(self, x, i, memory):
        k, v = memory.extend(i, self.k(x), self.v(x))
        att = (self.q(x) @ k.transpose(1, 2)) / k.size(-1) ** 0.5
        x = x + att.softmax(-1) @ v
        return x + self.ff(x)


class Chat(nn.Module):
    def __init__(self, vocab=30, width=24, depth=4):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.cells = nn.ModuleList(Cell(width) for _ in range(depth))
        self.head = nn.Linear(width, vocab)
        self.width = width

    def parallelize(self, gpus=2):
        half = len(self.cells) // gpus
        self.embed.cuda(0)
        for i, c in enumerate(self.cells):
            c.cuda(i // half)
        self.head.cuda(gpus - 1)
        self.first, self.last = torch.device("cuda", 0), torch.device("cuda", gpus - 1)
        return self

    def new_memory(self):
        return Memory(len(self.cells), self.width, self.first)

    def forward(self, tok, memory):
        x = self.embed(tok.to(self.first))
        for i, c in enumerate(self.cells):
            if i and c.k.weight.device != x.device:
                x = x.to(c.k.weight.device)
            x = c(x, i, memory)
        return self.head(x)


@torch.no_grad()
def reply(model, prompt, n=6):
    memory = model.new_memory()
    for t in prompt:
        logits = model(torch.tensor([[t]]), memory)
    out = []
    for _ in range(n):
        t = logits[0, -1].argmax().item()
        out.append(t)
        logits = model(torch.tensor([[t]]), memory)
    return out


print(reply(Chat().parallelize(), [3, 9, 4]))
