# cause: extra-input-on-wrong-device
# guilty: counts
# after: pengzhendong/streaming-sensevoice#1
import torch
from torch import nn


class Clips(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.frame = nn.Conv2d(3, width, 4, 4)
        self.out = nn.Linear(width, 4)

    def forward(self, frames, counts):
        b, t = frames.shape[:2]
        seen = self.frame(frames.flatten(0, 1)).mean((-1, -2)).view(b, t, -1)
        there = torch.arange(t, device=seen.device).unsqueeze(0) < counts.unsqueeze(1)
        summed = (seen * there.unsqueeze(-1)).sum(1)
        return self.out(summed / counts.unsqueeze(1))


def collate(videos):
    frames = nn.utils.rnn.pad_sequence(videos, batch_first=True)
    return frames, torch.as_tensor([len(v) for v in videos])


device = torch.device("cuda:1")
clips = Clips().to(device)
frames, counts = collate([torch.rand(3, 3, 8, 8), torch.rand(5, 3, 8, 8)])
print(clips(frames.to(device), counts).softmax(-1))
