# cause: generation-helper-on-wrong-device
# guilty: banned
import torch
from torch import nn

NOTES = 24
net = nn.Sequential(nn.Embedding(NOTES, 8), nn.Flatten(), nn.Linear(8 * 4, NOTES)).to("cuda:0").eval()
banned = torch.zeros(NOTES)
banned[[0, 5, 7]] = -1e9


@torch.no_grad()
def play(first, count):
    tune = first
    for _ in range(count):
        scores = net(tune[:, -4:])
        scores = scores + banned
        note = scores.argmax(-1, keepdim=True)
        tune = torch.cat([tune, note], dim=1)
    return tune


print(play(torch.tensor([[1, 2, 3, 4]], device="cuda:0"), 5).tolist())
