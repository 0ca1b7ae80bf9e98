# cause: extra-input-on-wrong-device
# guilty: ?
import torch
from torch import nn


class Video(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 8)

    def forward(self, ids, seconds):
        return self.embed(ids) * seconds[:, None, None]


model = Video().to("cuda:0")
batch = {"ids": torch.zeros(2, 5, dtype=torch.long), "seconds": torch.tensor([1.0, 2.0])}
model(batch["ids"].to("cuda:0"), seconds=batch["seconds"])
