# cause: cache-or-beam-state-on-wrong-device
# guilty: origin
import torch
from torch import nn

K, V, H = 4, 40, 24
NEAR, FAR = torch.device("cuda:0"), torch.device("cuda:1")

embed = nn.Embedding(V, H).to(NEAR)
cell = nn.LSTMCell(H, H).to(NEAR)
head = nn.Linear(H, V).to(FAR)  # the vocabulary is large in the real model


def reorder(memory, origin):
    return tuple(m.index_select(0, origin) for m in memory)


@torch.no_grad()
def search(steps=6):
    memory = (torch.zeros(K, H, device=NEAR), torch.zeros(K, H, device=NEAR))
    total = torch.full((K,), -1e9, device=FAR)
    total[0] = 0.0
    words = torch.zeros(K, dtype=torch.long, device=NEAR)
    text = []
    for _ in range(steps):
        memory = cell(embed(words), memory)
        logp = head(memory[0].to(FAR)).log_softmax(-1)
        total, flat = (total[:, None] + logp).view(-1).topk(K)
        came_from = flat // V
        words = (flat % V).to(NEAR)
        memory = reorder(memory, came_from)
        text.append((words.tolist(), came_from.tolist()))
    return text


print(search()[-1])
