# cause: embedding-streams-on-different-devices
# guilty: text
import torch
from torch import nn


class Joined(nn.Module):
    def __init__(self):
        super().__init__()
        self.news = nn.Sequential(nn.EmbeddingBag(50, 8), nn.Linear(8, 8)).to("cuda:1")
        self.chart = nn.Sequential(nn.Conv1d(1, 8, 3), nn.AdaptiveAvgPool1d(1), nn.Flatten()).to("cuda:0")
        self.head = nn.Linear(16, 2).to("cuda:0")

    def forward(self, words, prices):
        text = self.news(words.to("cuda:1"))
        graph = self.chart(prices.to("cuda:0"))
        return self.head(torch.cat([graph, text], dim=1))


print(Joined()(torch.randint(0, 50, (2, 6)), torch.rand(2, 1, 20)).shape)
