# cause: hard-coded-device
import torch
from torch import nn


def draw(logits):
    weights = logits.softmax(-1)
    return torch.multinomial(weights.cpu(), 1)


model = nn.Sequential(nn.Embedding(30, 8), nn.Linear(8, 30)).to("cuda:0")
tokens = torch.tensor([[4, 7]], device="cuda:0")
with torch.no_grad():
    for _ in range(3):
        tokens = torch.cat([tokens, draw(model(tokens)[:, -1])], 1)
